//! The last requests that were blocked, or would be in detection mode, for the admin port, in memory only: records as
//! the audit log has them, with the same things masked, and of many more what lists and counts need ([`Event`]).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use crate::event::Event;

/// Bytes of records that are kept, whatever their number: one record can be 512 KiB.
const BYTES_MAX: usize = 4 << 20;

/// Requests of which an [`Event`] is kept, and bytes of those.
pub(crate) const EVENTS_MAX: usize = 10_000;
const EVENT_BYTES_MAX: usize = 4 << 20;

/// The last requests that were blocked, or would be.
#[derive(Debug)]
pub(crate) struct Recent {
    requests_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the last one: they are counted from 1.
    last: u64,
    bytes: usize,
    records: VecDeque<Stored>,
    event_bytes: usize,
    events: VecDeque<Event>,
}

/// A record, and its number.
#[derive(Debug)]
struct Stored {
    number: u64,
    /// A line of JSON.
    record: Arc<str>,
}

impl Recent {
    /// Room for so many records. Without any, no events are kept either.
    pub(crate) fn new(requests_max: usize) -> Self {
        Self { requests_max, kept: Mutex::default() }
    }

    /// Keeps a record, in the place of the oldest if there is no more room; `now` is in seconds since 1970,
    /// and `level` the highest paranoia level that blocks.
    pub(crate) fn push(&self, record: String, now: u64, level: u8) {
        if self.requests_max == 0 || record.len() > BYTES_MAX {
            return;
        }
        // Before the lock: it takes longest.
        let Some(event) = Event::read(&record, 0, now, level) else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let number = kept.last;
        kept.push_event(Event { number, ..event });
        kept.bytes += record.len();
        kept.records.push_back(Stored { number, record: record.into() });
        while kept.records.len() > self.requests_max || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.records.pop_front() else { return };
            kept.bytes = kept.bytes.saturating_sub(oldest.record.len());
        }
    }

    /// Shows all events, the newest first, and the number of the first one whose record is kept.
    pub(crate) fn events<T>(
        &self,
        show: impl FnOnce(&mut dyn Iterator<Item = &Event>, u64) -> T,
    ) -> T {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.records.front().map_or(u64::MAX, |oldest| oldest.number);
        show(&mut kept.events.iter().rev(), first)
    }

    /// The number of the last one, and those with a record after the number `after`, the oldest first. A number that
    /// has not been given yet is of the process before this one, whose reader knows none of these.
    pub(crate) fn after(&self, after: u64) -> (u64, Vec<Event>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let after = if after > kept.last { 0 } else { after };
        let first = kept.records.front().map_or(u64::MAX, |oldest| oldest.number);
        let wanted = |event: &&Event| event.number > after && event.number >= first;
        (kept.last, kept.events.iter().filter(wanted).cloned().collect())
    }

    /// The record of this number, if it is still there.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<str>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.records.iter().find(|kept| kept.number == number);
        found.map(|kept| Arc::clone(&kept.record))
    }
}

impl Kept {
    fn push_event(&mut self, event: Event) {
        self.event_bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || self.event_bytes > EVENT_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { return };
            self.event_bytes = self.event_bytes.saturating_sub(oldest.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of so many bytes, or of as few as it takes.
    fn record(uri: &str, bytes: usize) -> String {
        let head = format!(
            "{{\"time\":\"t\",\"request_id\":\"r\",\"client\":\"c\",\"method\":\"GET\",\"uri\":\"{uri}\",\"host\":\"h\",\
             \"profile\":\"p\",\"action\":\"deny\",\"score_inbound\":5,\"score_outbound\":0,\"more\":\""
        );
        let more = bytes.saturating_sub(head.len() + 2);
        format!("{head}{}\"}}", "a".repeat(more))
    }

    fn push(recent: &Recent, uri: &str) {
        recent.push(record(uri, 0), 0, 1);
    }

    fn numbers(recent: &Recent, after: u64) -> Vec<u64> {
        recent.after(after).1.iter().map(|event| event.number).collect()
    }

    fn events(recent: &Recent) -> (usize, usize) {
        recent.events(|events, _| {
            let bytes: Vec<usize> = events.map(Event::bytes).collect();
            (bytes.len(), bytes.iter().sum())
        })
    }

    #[test]
    fn the_oldest_record_goes_first() {
        let recent = Recent::new(3);
        for uri in ["/a", "/b", "/c", "/d"] {
            push(&recent, uri);
        }
        assert_eq!((numbers(&recent, 0), numbers(&recent, 3)), (vec![2, 3, 4], vec![4]));
        assert_eq!((numbers(&recent, 4), numbers(&recent, 5)), (vec![], vec![2, 3, 4]));
        assert!(recent.get(1).is_none() && recent.get(4).unwrap().contains("/d"));
        // What lists and counts need is kept of it all the same.
        assert_eq!(recent.events(|events, first| (events.count(), first)), (4, 2));
        // Bytes are bounded as well, and what is larger than all of them is not kept.
        recent.push(record("/e", BYTES_MAX), 0, 1);
        assert_eq!(numbers(&recent, 0), [5]);
        recent.push(record("/f", BYTES_MAX + 1), 0, 1);
        push(&recent, "/g");
        assert_eq!(numbers(&recent, 0), [6]);
        recent.push("no record".to_owned(), 0, 1);
        assert_eq!(numbers(&recent, 0), [6]);
        let none = Recent::new(0);
        push(&none, "/a");
        assert!(numbers(&none, 0).is_empty() && events(&none).0 == 0);
    }

    #[test]
    fn events_are_bounded_in_number_and_bytes() {
        let recent = Recent::new(1);
        (0..EVENTS_MAX).for_each(|_| push(&recent, "/"));
        assert_eq!(events(&recent).0, EVENTS_MAX);
        push(&recent, "/");
        assert_eq!(events(&recent).0, EVENTS_MAX);
        let newest = recent.events(|events, _| events.next().map(|event| event.number));
        assert_eq!(newest, Some(10_001));
        // Long ones are fewer.
        let long = "a".repeat(600);
        (0..EVENTS_MAX).for_each(|_| push(&recent, &long));
        let (count, bytes) = events(&recent);
        let each = bytes / count;
        assert!(bytes <= EVENT_BYTES_MAX && bytes + each > EVENT_BYTES_MAX, "{count} {bytes}");
        assert!(count < EVENTS_MAX && count > EVENTS_MAX / 3, "{count}");
    }
}
