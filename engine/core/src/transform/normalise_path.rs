//! `normalisePath` and `normalisePathWin`.

use memchr::{memchr, memchr_iter};

/// `normalisePath`: removes empty segments, `.` segments, and `..` segments with the segment before
/// them. Never climbs above the root or out of a relative path; a trailing `/` is neither added nor
/// lost.
///
/// As in ModSecurity any segment that *ends* in `..` climbs (`/a/b../c` is `/a/c`).
pub(crate) fn normalise_path(input: &[u8], out: &mut Vec<u8>) -> bool {
    is_candidate(input) && Path::normalise(input, out, false)
}

/// `normalisePathWin`: the same, with `\` read as `/`.
///
/// As in ModSecurity the last of three or more slashes is kept as it was written.
pub(crate) fn normalise_path_win(input: &[u8], out: &mut Vec<u8>) -> bool {
    (memchr(b'\\', input).is_some() || is_candidate(input)) && Path::normalise(input, out, true)
}

/// Whether there is an empty segment or one that ends in a dot; without them nothing changes.
fn is_candidate(input: &[u8]) -> bool {
    input.ends_with(b".")
        || memchr_iter(b'/', input).any(|slash| {
            input.get(slash + 1) == Some(&b'/')
                || slash.checked_sub(1).and_then(|before| input.get(before)) == Some(&b'.')
        })
}

/// The path while it is rewritten in place: everything before `write` is result, everything from
/// `read` on is input, and `write <= read`. Each byte is written and removed at most once, so the
/// whole is linear.
struct Path<'a> {
    bytes: &'a mut Vec<u8>,
    read: usize,
    write: usize,
    /// The index of the last byte.
    last: usize,
    relative: bool,
    /// A back-reference has met the root, so the next one of a relative path has nothing to remove.
    hit_root: bool,
    windows: bool,
}

impl Path<'_> {
    /// Writes the normalised `input` to `out`.
    fn normalise(input: &[u8], out: &mut Vec<u8>, windows: bool) -> bool {
        let slash = |byte: Option<&u8>| byte == Some(&b'/') || (windows && byte == Some(&b'\\'));
        let Some(last) = input.len().checked_sub(1) else { return false };
        out.extend_from_slice(input);
        let mut path = Path {
            bytes: out,
            read: 0,
            write: 0,
            last,
            relative: !slash(input.first()),
            hit_root: false,
            windows,
        };
        while path.read <= last {
            path.step();
        }
        let mut length = path.write;
        if !slash(input.last()) && path.before_write() == b'/' {
            length -= 1;
        }
        out.truncate(length);
        true
    }

    /// The byte at `index`, 0 behind the end.
    fn at(&self, index: usize) -> u8 {
        self.bytes.get(index).copied().unwrap_or(0)
    }

    /// The byte written last, 0 if there is none.
    fn before_write(&self) -> u8 {
        self.write.checked_sub(1).map_or(0, |index| self.at(index))
    }

    /// Takes one byte, or a whole segment that is no name.
    fn step(&mut self) {
        self.turn_backslash(self.read);
        self.turn_backslash(self.read + 1);
        let at_last = self.read == self.last;
        let ends_segment = at_last || self.at(self.read + 1) == b'/';
        if ends_segment {
            match self.at(self.read) {
                // Empty segments are skipped while copying.
                b'/' => {}
                b'.' => {
                    let resolved = self.dot(at_last);
                    if resolved && at_last {
                        self.read += 1;
                        return;
                    }
                }
                _ if self.write > 0 => self.hit_root = false,
                _ => {}
            }
        }
        self.copy();
    }

    /// Handles the dot that ends a segment; true if the segment was a reference and is resolved.
    fn dot(&mut self, at_last: bool) -> bool {
        match self.before_write() {
            b'.' => {
                if self.relative && (self.hit_root || self.write <= 2) {
                    // Nothing to remove: the reference stays, as do those after it.
                    self.hit_root = true;
                    return false;
                }
                self.climb(at_last);
            }
            b'/' => {
                // The slash before stays if the path ends here, otherwise the one after.
                self.write -= usize::from(!at_last);
            }
            _ if self.write == 0 => {}
            _ => return false,
        }
        self.read += usize::from(!at_last);
        true
    }

    /// Removes the segment before a back-reference, whose first dot is written already.
    fn climb(&mut self, at_last: bool) {
        self.write = self.write.saturating_sub(3);
        while self.write > 0 && self.at(self.write) != b'/' {
            self.write -= 1;
        }
        if self.write == 0 {
            self.hit_root = true;
            // An absolute path that ends here is the root, whose slash is still in place.
            self.write = usize::from(!self.relative && at_last);
        }
    }

    /// Copies a byte; of several slashes the last, and none to the front of a relative path.
    fn copy(&mut self) {
        if self.at(self.read) == b'/' {
            while self.is_slash(self.at(self.read + 1)) {
                self.read += 1;
            }
            if self.relative && self.write == 0 {
                self.read += 1;
                return;
            }
        }
        let byte = self.at(self.read);
        if let Some(place) = self.bytes.get_mut(self.write) {
            *place = byte;
        }
        self.write += 1;
        self.read += 1;
    }

    fn is_slash(&self, byte: u8) -> bool {
        byte == b'/' || (self.windows && byte == b'\\')
    }

    fn turn_backslash(&mut self, index: usize) {
        if self.windows
            && let Some(byte @ b'\\') = self.bytes.get_mut(index)
        {
            *byte = b'/';
        }
    }
}
