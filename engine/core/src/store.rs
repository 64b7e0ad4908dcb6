//! The bytes of one transaction and where each value lies in them.
//!
//! Values are never copied per rule: a [`Slice`] names a range of one of a few buffers. Buffers are
//! emptied, not freed, between transactions, so that a reused transaction allocates nothing.

use crate::variable::Variable;

/// Which buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Region {
    /// Request line, headers, arguments: what is known once and stays.
    #[default]
    Store,
    /// The request body as received.
    RequestBody,
    /// The response body as received.
    ResponseBody,
    /// Results of transformations, for the whole transaction.
    Transformed,
    /// Values of the rule being evaluated.
    Temporary,
}

/// A range of one of the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) region: Region,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Slice {
    pub(crate) const EMPTY: Self = Self { region: Region::Store, start: 0, end: 0 };

    pub(crate) const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// The first `bytes` of it, or all if it is no longer.
    pub(crate) fn prefix(self, bytes: usize) -> Self {
        let bytes = u32::try_from(bytes.min(self.len())).unwrap_or(u32::MAX);
        Self { end: self.start.saturating_add(bytes), ..self }
    }
}

/// Names a value that stays the same for the whole transaction, to find its transformed forms again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueId(pub(crate) u32);

/// A member of a collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) name: Slice,
    pub(crate) value: Slice,
    /// The id of the name; the value's is the next. [`NO_ID`] behind the first members of a collection.
    pub(crate) id: u32,
}

/// The id of members of large collections: nothing is kept of what chains of transformations make of them.
pub(crate) const NO_ID: u32 = u32::MAX;

/// The collections that are filled from the request and the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    ArgsGet,
    /// What values of those hold.
    ArgsGetDecoded,
    ArgsPost,
    ArgsPostDecoded,
    RequestHeaders,
    ResponseHeaders,
    Cookies,
    CookiesDecoded,
    Files,
    FilesSizes,
    FilesContent,
    Geo,
    Graphql,
    Openapi,
    PartHeaders,
    MultipartFileNames,
    MultipartNames,
    XmlText,
    XmlAttributes,
    XmlPaths,
}

impl List {
    const COUNT: usize = Self::XmlPaths as usize + 1;

    /// Whether its members are what others hold: they have values and are not counted.
    pub(crate) const fn is_decoded(self) -> bool {
        matches!(self, Self::ArgsGetDecoded | Self::ArgsPostDecoded | Self::CookiesDecoded)
    }
}

/// The buffers and collections of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Store {
    store: Vec<u8>,
    pub(crate) request_body: Vec<u8>,
    pub(crate) response_body: Vec<u8>,
    transformed: Vec<u8>,
    temporary: Vec<u8>,
    lists: [Vec<Pair>; List::COUNT],
    /// Of each uploaded file, where its name stands in [`List::Files`], which has further ones.
    files: Vec<usize>,
    next_id: u32,
    /// Members of each collection that have ids.
    members_max: usize,
    /// Whether a collection has members without.
    is_large: bool,
    is_cut: bool,
}

/// Values of scalars have the ids below this, by [`Variable`]; those of pairs follow. There are lists by id for each
/// lane, so ids that nobody has would take memory.
#[allow(clippy::cast_possible_truncation, reason = "there are a hundred variables or so")]
pub(crate) const SCALAR_IDS: u32 = Variable::ALL.len() as u32;

/// No buffer grows beyond this: a range is 32 bits wide.
const BUFFER_BYTES_MAX: usize = u32::MAX as usize / 2;

impl Store {
    /// A store in which so many members of each collection have ids.
    pub(crate) fn new(members_max: usize) -> Self {
        Self { members_max, ..Self::default() }
    }

    /// Forgets everything and keeps the memory, but for buffers that one large request made huge.
    pub(crate) fn clear(&mut self) {
        for buffer in [
            &mut self.store,
            &mut self.request_body,
            &mut self.response_body,
            &mut self.transformed,
            &mut self.temporary,
        ] {
            buffer.clear();
            buffer.shrink_to(BUFFER_BYTES_KEPT);
        }
        for list in &mut self.lists {
            list.clear();
            list.shrink_to(PAIRS_KEPT);
        }
        self.files.clear();
        self.files.shrink_to(PAIRS_KEPT);
        self.next_id = SCALAR_IDS;
        self.is_large = false;
        self.is_cut = false;
    }

    /// Gives back the memory of transformed values, of which nobody knows any more.
    pub(crate) fn rest(&mut self) {
        self.transformed = Vec::new();
    }

    /// Whether something was longer than a buffer may be.
    pub(crate) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn bytes(&self, slice: Slice) -> &[u8] {
        let buffer = match slice.region {
            Region::Store => &self.store,
            Region::RequestBody => &self.request_body,
            Region::ResponseBody => &self.response_body,
            Region::Transformed => &self.transformed,
            Region::Temporary => &self.temporary,
        };
        buffer.get(slice.start as usize..slice.end as usize).unwrap_or_default()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Slice {
        append(&mut self.store, Region::Store, bytes, &mut self.is_cut)
    }

    /// Bytes that the results of transformations take.
    #[cfg(test)]
    pub(crate) const fn transformed_bytes(&self) -> usize {
        self.transformed.capacity()
    }

    /// Keeps what was made of a value; not if all of it together would then take more than `bytes_max`.
    pub(crate) fn push_transformed(&mut self, bytes: &[u8], bytes_max: usize) -> Option<Slice> {
        let taken = self.transformed.len().saturating_add(bytes.len());
        let has_room = taken <= bytes_max.min(BUFFER_BYTES_MAX);
        has_room
            .then(|| append(&mut self.transformed, Region::Transformed, bytes, &mut self.is_cut))
    }

    pub(crate) fn push_temporary(&mut self, bytes: &[u8]) -> Slice {
        append(&mut self.temporary, Region::Temporary, bytes, &mut self.is_cut)
    }

    pub(crate) fn clear_temporary(&mut self) {
        self.temporary.clear();
    }

    pub(crate) const fn temporary_bytes(&self) -> usize {
        self.temporary.len()
    }

    /// Forgets what came behind the first so many bytes.
    pub(crate) fn cut_temporary(&mut self, bytes: usize) {
        self.temporary.truncate(bytes);
    }

    pub(crate) fn request_body_slice(&self) -> Slice {
        whole(Region::RequestBody, &self.request_body)
    }

    pub(crate) fn response_body_slice(&self) -> Slice {
        whole(Region::ResponseBody, &self.response_body)
    }

    pub(crate) fn list(&self, list: List) -> &[Pair] {
        self.lists.get(list as usize).map_or(&[], Vec::as_slice)
    }

    /// Notes that the next member of [`List::Files`] names a file.
    pub(crate) fn note_file(&mut self) {
        self.files.push(self.list(List::Files).len());
    }

    /// The name of each uploaded file; absent where there was no room for it.
    pub(crate) fn files(&self) -> impl Iterator<Item = Option<&Pair>> {
        self.files.iter().map(|&place| self.list(List::Files).get(place))
    }

    pub(crate) fn add_pair(&mut self, list: List, name: &[u8], value: &[u8]) {
        let name = self.push(name);
        let value = self.push(value);
        self.add_slices(list, name, value);
    }

    /// Adds a member whose bytes are already in a buffer.
    pub(crate) fn add_slices(&mut self, list: List, name: Slice, value: Slice) {
        let Some(pairs) = self.lists.get_mut(list as usize) else { return };
        let id = match pairs.len() < self.members_max {
            true => self.next_id,
            false => NO_ID,
        };
        pairs.push(Pair { name, value, id });
        match id {
            NO_ID => self.is_large = true,
            _ => self.next_id = self.next_id.saturating_add(2),
        }
    }

    /// Whether a collection has members without ids.
    pub(crate) const fn is_large(&self) -> bool {
        self.is_large
    }

    /// An id for a member that has none.
    pub(crate) const fn next_id(&mut self) -> ValueId {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        ValueId(id)
    }

    /// Takes all members out. Their bytes stay, so that slices of them stay valid.
    pub(crate) fn clear_list(&mut self, list: List) {
        if let Some(pairs) = self.lists.get_mut(list as usize) {
            pairs.clear();
        }
    }

    /// The value of the first member of that name, whatever its case.
    pub(crate) fn find(&self, list: List, name: &[u8]) -> Option<&[u8]> {
        self.find_slice(list, name).map(|slice| self.bytes(slice))
    }

    /// Where that value lies.
    pub(crate) fn find_slice(&self, list: List, name: &[u8]) -> Option<Slice> {
        let mut pairs = self.list(list).iter();
        let pair = pairs.find(|pair| self.bytes(pair.name).eq_ignore_ascii_case(name))?;
        Some(pair.value)
    }
}

/// Bytes of each buffer that a reused transaction keeps.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// Members of each collection that a reused transaction keeps room for.
const PAIRS_KEPT: usize = 1 << 8;

fn whole(region: Region, buffer: &[u8]) -> Slice {
    Slice { region, start: 0, end: u32::try_from(buffer.len()).unwrap_or(u32::MAX) }
}

fn append(buffer: &mut Vec<u8>, region: Region, bytes: &[u8], is_cut: &mut bool) -> Slice {
    let start = buffer.len();
    let room = BUFFER_BYTES_MAX.saturating_sub(start);
    *is_cut |= bytes.len() > room;
    let bytes = bytes.get(..bytes.len().min(room)).unwrap_or_default();
    buffer.extend_from_slice(bytes);
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Slice { region, start: position(start), end: position(buffer.len()) }
}
