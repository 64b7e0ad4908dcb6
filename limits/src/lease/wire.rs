//! What a borrower and a lender say to each other: gRPC, one call for many keys.
//!
//! ```protobuf
//! syntax = "proto3";
//! package glacis.lease.v1;
//!
//! service Lender {
//!   rpc Lease(LeaseRequest) returns (LeaseResponse);
//! }
//! message LeaseRequest {
//!   fixed64 borrower = 1;
//!   repeated KeyAsk asks = 2;
//! }
//! message KeyAsk {
//!   string limit = 1;
//!   bytes key = 2;       // 16 bytes
//!   uint32 want = 3;
//!   uint32 left = 4;
//!   uint32 returned = 5;
//!   uint32 spent = 6;
//! }
//! message LeaseResponse {
//!   repeated KeyAnswer answers = 1;  // one for each question, in their order
//! }
//! message KeyAnswer {
//!   uint32 granted = 1;
//!   uint32 lifetime_ms = 2;
//!   uint32 retry_after_ms = 3;
//!   bool unavailable = 4;  // no such limit, or its store does not answer
//! }
//! ```

use super::{Answer, Ask, Key};
use prost::Message;

/// The gRPC service.
pub const SERVICE: &str = "glacis.lease.v1.Lender";
/// Its one method.
pub const METHOD: &str = "Lease";

const MS_NS: u64 = 1_000_000;

/// What a borrower asks.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRequest {
    /// The borrower: one process. Any number that no other has.
    #[prost(fixed64, tag = "1")]
    pub borrower: u64,
    /// What it asks, at most [`ASKS_MAX`](super::desk::ASKS_MAX) of them.
    #[prost(message, repeated, tag = "2")]
    pub asks: Vec<KeyAsk>,
}

/// What it asks of one key.
#[derive(Clone, PartialEq, Message)]
pub struct KeyAsk {
    /// The name of the limit, as the lender knows it.
    #[prost(string, tag = "1")]
    pub limit: String,
    /// The key, 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    /// See [`Ask::want`].
    #[prost(uint32, tag = "3")]
    pub want: u32,
    /// See [`Ask::left`].
    #[prost(uint32, tag = "4")]
    pub left: u32,
    /// See [`Ask::returned`].
    #[prost(uint32, tag = "5")]
    pub returned: u32,
    /// See [`Ask::spent`].
    #[prost(uint32, tag = "6")]
    pub spent: u32,
}

/// What the lender says.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseResponse {
    /// One for each question, in their order.
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<KeyAnswer>,
}

/// What it says of one key.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct KeyAnswer {
    /// See [`Answer::granted`].
    #[prost(uint32, tag = "1")]
    pub granted: u32,
    /// See [`Answer::lifetime_ns`], in milliseconds.
    #[prost(uint32, tag = "2")]
    pub lifetime_ms: u32,
    /// See [`Answer::retry_after_ns`], in milliseconds.
    #[prost(uint32, tag = "3")]
    pub retry_after_ms: u32,
    /// The lender knows no such limit, or its store does not answer: it is as good as away.
    #[prost(bool, tag = "4")]
    pub unavailable: bool,
}

impl KeyAsk {
    /// A question about a key of a limit.
    #[must_use]
    pub fn new(limit: &str, key: Key, ask: &Ask) -> Self {
        let Ask { want, left, returned, spent } = *ask;
        Self { limit: limit.to_owned(), key: key.to_vec(), want, left, returned, spent }
    }

    /// The key, if it has the right length.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        self.key.as_slice().try_into().ok()
    }

    /// The question without its key.
    #[must_use]
    pub const fn ask(&self) -> Ask {
        Ask { want: self.want, left: self.left, returned: self.returned, spent: self.spent }
    }
}

impl KeyAnswer {
    /// What is said of a limit that cannot be asked.
    pub const UNAVAILABLE: Self =
        Self { granted: 0, lifetime_ms: 0, retry_after_ms: 0, unavailable: true };

    /// The answer in milliseconds: a lifetime rounded down, a wait rounded up.
    #[must_use]
    pub fn new(answer: &Answer) -> Self {
        let ms = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        Self {
            granted: answer.granted,
            lifetime_ms: ms(answer.lifetime_ns / MS_NS),
            retry_after_ms: ms(answer.retry_after_ns.div_ceil(MS_NS)),
            unavailable: false,
        }
    }

    /// The answer; `None` if there is none to have.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        (!self.unavailable).then_some(Answer {
            granted: self.granted,
            lifetime_ns: u64::from(self.lifetime_ms) * MS_NS,
            retry_after_ns: u64::from(self.retry_after_ms) * MS_NS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes, as any other implementation of the messages above has them.
    #[test]
    fn bytes_of_messages() {
        let ask = Ask { want: 300, left: 2, returned: 5, spent: 1 };
        let request = LeaseRequest { borrower: 7, asks: vec![KeyAsk::new("api", [9; 16], &ask)] };
        let expected = [
            &[0x09, 7, 0, 0, 0, 0, 0, 0, 0, 0x12, 32, 0x0a, 3, b'a', b'p', b'i', 0x12, 16][..],
            &[9; 16],
            &[0x18, 0xac, 0x02, 0x20, 2, 0x28, 5, 0x30, 1],
        ];
        assert_eq!(request.encode_to_vec(), expected.concat());
        let back = LeaseRequest::decode(request.encode_to_vec().as_slice()).unwrap();
        assert_eq!((back.asks[0].key(), back.asks[0].ask()), (Some([9; 16]), ask));
        assert_eq!(KeyAsk::default().key(), None);

        let told = Answer { granted: 4, lifetime_ns: 6_000_900_000, retry_after_ns: 1 };
        let answer = KeyAnswer::new(&told);
        let response = LeaseResponse { answers: vec![answer, KeyAnswer::UNAVAILABLE] };
        let expected = [0x0a, 7, 0x08, 4, 0x10, 0xf0, 0x2e, 0x18, 1, 0x0a, 2, 0x20, 1];
        assert_eq!(response.encode_to_vec(), expected);
        let rounded = Answer { lifetime_ns: 6_000_000_000, retry_after_ns: MS_NS, ..told };
        assert_eq!(answer.answer(), Some(rounded));
        assert_eq!(KeyAnswer::UNAVAILABLE.answer(), None);
    }
}
