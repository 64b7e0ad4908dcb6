//! The reader of one direction.
//!
//! It returns whole frames only: a control frame when it is complete, and the frames of a message when the last of them
//! is. Between two events the other peer has seen nothing but whole frames, so that a Close frame can follow at any
//! time. Control frames overtake the fragments between which they came, as RFC 6455, 5.4 leaves to the sender.

use super::{
    Event, Fault, Kind, Peer,
    frame::{HEADER_BYTES_MAX, Header, Opcode, check, close_reason, header, header_bytes},
    message::Coming,
};

/// What is read of each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// Bytes of a message, both compressed and decompressed.
    pub message_bytes_max: usize,
    /// Frames of a message.
    pub frames_max: usize,
    /// Whether the beginning of a larger message is returned, and the rest passes, instead of a [`Fault`].
    pub cuts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// There was a Close frame.
    Closed,
    Broken,
}

/// Parses what one peer sends, in pieces of any size.
#[derive(Debug)]
pub struct Reader {
    from: Peer,
    state: State,
    compresses: bool,
    limits: ReaderLimits,
    /// What has come of the header of the next frame.
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: u8,
    /// The frame whose payload is coming.
    frame: Option<Header>,
    /// Bytes of its payload that have come.
    has_come: u64,
    /// The control frame that is coming, as it came, and its payload without the mask.
    control: Vec<u8>,
    control_payload: Vec<u8>,
    message: Option<Box<Coming>>,
}

impl Reader {
    /// A reader of what `from` sends. With `compresses`, messages may be compressed, each by itself.
    #[must_use]
    pub const fn new(from: Peer, compresses: bool, limits: ReaderLimits) -> Self {
        Self {
            from,
            state: State::Open,
            compresses,
            limits,
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            frame: None,
            has_come: 0,
            control: Vec::new(),
            control_payload: Vec::new(),
            message: None,
        }
    }

    /// Takes bytes from `input` up to the next event; `None` when nothing is left of it. Call it until then.
    pub fn read(&mut self, input: &mut &[u8]) -> Option<Event> {
        loop {
            if self.state != State::Open {
                *input = &[];
                return None;
            }
            let step = match self.frame {
                Some(frame) => self.payload(frame, input),
                None if input.is_empty() => return None,
                None => self.header(input),
            };
            match step {
                Ok(Step::Event(event)) => {
                    if let Event::Close { .. } = event {
                        self.state = State::Closed;
                    }
                    return Some(event);
                }
                Ok(Step::Next) => {}
                Ok(Step::NeedsMore) => return None,
                Err(fault) => {
                    self.state = State::Broken;
                    return Some(Event::Fault(fault));
                }
            }
        }
    }

    /// Bytes that are held of what is not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let message = self.message.as_ref();
        self.control.len() + message.map_or(0, |it| it.raw.len() + it.payload.len())
    }

    /// Whether a Close frame has come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether the other peer has got the beginning of a frame, and not its end.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        let passes = self.message.as_ref().is_some_and(|message| message.is_passing);
        passes && (self.frame.is_some() && self.control.is_empty())
    }

    /// Gives back the frames that are held, as they came, after a [`Fault`] that nobody acts on.
    pub fn take_held(&mut self) -> Vec<u8> {
        let mut held = self.message.take().map_or_else(Vec::new, |message| message.raw);
        held.append(&mut self.control);
        held.extend(self.header.iter().take(usize::from(self.header_bytes)));
        self.header_bytes = 0;
        held
    }

    /// Takes bytes of a header.
    fn header(&mut self, input: &mut &[u8]) -> Result<Step, Fault> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            let at = usize::from(self.header_bytes);
            if let Some(place) = self.header.get_mut(at) {
                *place = byte;
            }
            self.header_bytes += 1;
            let [first, second, ..] = self.header;
            if at == 0 {
                continue;
            }
            let opcode = check(first, second, self.from, self.compresses)?;
            let Some(bytes) = self.header.get(..=at).filter(|it| it.len() >= header_bytes(second))
            else {
                continue;
            };
            let frame = header(bytes, opcode)?;
            let step = self.begin(frame)?;
            self.header_bytes = 0;
            return Ok(step);
        }
        Ok(Step::NeedsMore)
    }

    /// Begins a frame whose header is complete.
    fn begin(&mut self, frame: Header) -> Result<Step, Fault> {
        let raw = self.header.get(..usize::from(self.header_bytes)).unwrap_or_default();
        (self.frame, self.has_come) = (Some(frame), 0);
        if frame.opcode.is_control() {
            self.control.extend_from_slice(raw);
            return Ok(Step::Next);
        }
        let begins = match (frame.opcode, &self.message) {
            (Opcode::Continuation, Some(_)) => None,
            (Opcode::Text, None) => Some(Kind::Text),
            (Opcode::Binary, None) => Some(Kind::Binary),
            _ => return Err(Fault::Sequence),
        };
        let begin = |kind| Box::new(Coming::new(kind, frame.is_compressed));
        let message = match begins {
            Some(kind) => self.message.insert(begin(kind)),
            None => self.message.as_mut().ok_or(Fault::Sequence)?,
        };
        if message.is_passing {
            return Ok(Step::Event(Event::Rest(raw.to_vec())));
        }
        let ReaderLimits { message_bytes_max, frames_max, cuts } = self.limits;
        let length = usize::try_from(frame.length).unwrap_or(usize::MAX);
        if message.payload.len().saturating_add(length) > message_bytes_max && !cuts {
            return Err(Fault::MessageTooLong);
        }
        if message.frames >= frames_max && !cuts {
            return Err(Fault::TooManyFrames);
        }
        message.raw.extend_from_slice(raw);
        message.frames += 1;
        if message.frames > frames_max {
            message.is_passing = true;
            return message.event(true, message_bytes_max, cuts).map(Step::Event);
        }
        Ok(Step::Next)
    }

    /// Takes bytes of the payload of `frame`.
    fn payload(&mut self, frame: Header, input: &mut &[u8]) -> Result<Step, Fault> {
        let left = usize::try_from(frame.length - self.has_come).unwrap_or(usize::MAX);
        if frame.opcode.is_control() {
            let piece = take(input, left);
            self.control.extend_from_slice(piece);
            unmask(piece, frame.mask, self.has_come, &mut self.control_payload);
            return self.took(frame, piece.len());
        }
        let bytes_max = self.limits.message_bytes_max;
        let message = self.message.as_mut().ok_or(Fault::Sequence)?;
        if message.is_passing {
            let piece = take(input, left);
            let rest = piece.to_vec();
            let step = self.took(frame, rest.len())?;
            return Ok(if rest.is_empty() { step } else { Step::Event(Event::Rest(rest)) });
        }
        let room = bytes_max.saturating_sub(message.payload.len());
        if left > 0 && room == 0 {
            message.is_passing = true;
            return message.event(true, bytes_max, true).map(Step::Event);
        }
        let piece = take(input, left.min(room));
        message.raw.extend_from_slice(piece);
        unmask(piece, frame.mask, self.has_come, &mut message.payload);
        self.took(frame, piece.len())
    }

    /// Goes on after so many bytes of the payload of `frame`.
    fn took(&mut self, frame: Header, bytes: usize) -> Result<Step, Fault> {
        self.has_come += bytes as u64;
        if self.has_come < frame.length {
            return Ok(if bytes == 0 { Step::NeedsMore } else { Step::Next });
        }
        self.frame = None;
        match frame.opcode {
            Opcode::Close => {
                let payload = core::mem::take(&mut self.control_payload);
                let reason = close_reason(&payload)?.to_owned();
                let code = payload.first_chunk().copied().map(u16::from_be_bytes);
                let frame = core::mem::take(&mut self.control);
                Ok(Step::Event(Event::Close { frame, code, reason }))
            }
            Opcode::Ping | Opcode::Pong => {
                self.control_payload = Vec::new();
                Ok(Step::Event(Event::Control(core::mem::take(&mut self.control))))
            }
            Opcode::Continuation | Opcode::Text | Opcode::Binary if frame.is_last => {
                self.complete()
            }
            Opcode::Continuation | Opcode::Text | Opcode::Binary => Ok(Step::Next),
        }
    }

    /// Ends a message.
    fn complete(&mut self) -> Result<Step, Fault> {
        let ReaderLimits { message_bytes_max, cuts, .. } = self.limits;
        let message = self.message.as_mut().ok_or(Fault::Sequence)?;
        if message.is_passing {
            self.message = None;
            return Ok(Step::Next);
        }
        let event = message.event(false, message_bytes_max, cuts)?;
        self.message = None;
        Ok(Step::Event(event))
    }
}

/// What a step of the reader comes to.
enum Step {
    Event(Event),
    Next,
    NeedsMore,
}

/// Takes up to so many bytes from the front.
fn take<'i>(input: &mut &'i [u8], bytes: usize) -> &'i [u8] {
    let (piece, rest) = input.split_at(bytes.min(input.len()));
    *input = rest;
    piece
}

/// Appends a piece without its mask; `at` is its place in the payload.
fn unmask(piece: &[u8], mask: [u8; 4], at: u64, out: &mut Vec<u8>) {
    let mut mask = mask;
    mask.rotate_left(usize::try_from(at % 4).unwrap_or(0));
    out.extend(piece.iter().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
}
