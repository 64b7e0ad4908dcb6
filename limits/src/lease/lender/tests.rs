//! Who gets how much, what is collected, and what there is room for.

use super::*;
use crate::xorshift::Xorshift;

const SECOND_NS: u64 = 1_000_000_000;
const T0: u64 = 1_700_000_000 * SECOND_NS;
const KEY: Key = [1; 16];

/// 1000 tokens in ten seconds: leases of a second, 100 tokens outstanding.
fn terms() -> Terms {
    Terms::new(1_000, 10 * SECOND_NS, None).unwrap()
}

fn lender(room: Room) -> Lender {
    Lender::new(terms(), room)
}

fn want(want: u32) -> Ask {
    Ask { want, ..Ask::default() }
}

/// An ask of a limit that has all that is asked for.
fn granted(lender: &mut Lender, borrower: u64, ask: &Ask, at_ms: u64) -> u32 {
    let now_ns = T0 + at_ms * 1_000_000;
    let offer = lender.offer(KEY, borrower, ask, now_ns);
    let taken = offer.take();
    lender.settle(offer, taken, now_ns).granted
}

#[test]
fn levels() {
    let rows: [(&[u32], u32, u32); 8] = [
        (&[], 10, u32::MAX),
        (&[10], 10, u32::MAX),
        (&[11], 10, 10),
        (&[1, 2, 3], 6, u32::MAX),
        (&[1, 100, 100], 11, 5),
        (&[100, 1, 4, 100], 25, 10),
        (&[5; 20], 10, 1),
        (&[u32::MAX, u32::MAX], u32::MAX, u32::MAX / 2),
    ];
    for (wants, supply, expected) in rows {
        assert_eq!(level(&mut wants.to_vec(), supply), expected, "{wants:?} of {supply}");
    }
}

#[test]
fn the_first_gets_what_it_wants_and_others_their_share_soon() {
    let mut lender = lender(Room::default());
    assert_eq!(granted(&mut lender, 1, &want(30), 0), 30);
    assert_eq!(granted(&mut lender, 2, &want(500), 0), 70, "what may be outstanding");
    assert_eq!(granted(&mut lender, 3, &want(500), 0), 0, "and no more");
    // Its lease is shared out when it comes to renew it.
    let spent = Ask { want: 500, left: 10, ..Ask::default() };
    assert_eq!(granted(&mut lender, 2, &spent, 300), 25, "30 and twice 35");
    assert_eq!(granted(&mut lender, 3, &want(500), 310), 35);
    assert_eq!(lender.outstanding(&KEY), 100);
}

/// A level is good for a quarter of a lifetime, and a lease lives for all of it.
#[test]
fn levels_and_leases_end_in_time() {
    for (at_ms, expected) in [(0, 60), (249, 60), (250, 25)] {
        let mut lender = lender(Room::default());
        for (borrower, wanted) in [(1, 30), (2, 500), (3, 500)] {
            let _ = granted(&mut lender, borrower, &want(wanted), 0);
        }
        let spent = Ask { want: 500, left: 10, ..Ask::default() };
        assert_eq!(granted(&mut lender, 2, &spent, at_ms), expected, "at {at_ms}");
    }
    for (at_ms, expected) in [(999, 0), (1_000, 50)] {
        let mut lender = lender(Room::default());
        assert_eq!(granted(&mut lender, 1, &want(100), 0), 100);
        assert_eq!(granted(&mut lender, 2, &want(50), at_ms), expected, "at {at_ms}");
    }
    // A clock that was set back by more than a lifetime ends a lease, too.
    for (expires_ns, lives) in
        [(T0, false), (T0 + 1, true), (T0 + 2 * SECOND_NS, true), (T0 + 2 * SECOND_NS + 1, false)]
    {
        let mut account = Account::default();
        account.leases.insert(7, lease(0, T0, expires_ns));
        let gone: &[u64] = if lives { &[] } else { &[7] };
        assert_eq!(account.expire(&terms(), T0), gone, "{expires_ns}");
    }
    // What is owed of a key without leases is forgotten after a window.
    for (owed, now_ns, expected) in
        [(0, T0, true), (1, T0 + 10 * SECOND_NS - 1, false), (1, T0 + 10 * SECOND_NS, true)]
    {
        let account = Account { owed, touched_ns: T0, ..Account::default() };
        assert_eq!(account.is_blank(&terms(), now_ns), expected, "{owed} at {now_ns}");
    }
}

fn lease(granted: u32, since_ns: u64, expires_ns: u64) -> Lease {
    Lease { held: 1, want: 1, expires_ns, granted, since_ns }
}

/// A level in a lifetime, and the time of a part of a token is kept.
#[test]
fn grants_are_forgotten_evenly() {
    let half_ns = T0 + SECOND_NS / 2;
    let rows = [
        ((100, T0), 50, T0, (100, T0)),
        ((100, T0), 50, half_ns, (75, half_ns)),
        ((100, T0), 3, half_ns, (99, T0 + 333_333_333)),
        ((1, T0), 3, half_ns, (0, half_ns)),
        ((100, T0), 50, T0 + 5 * SECOND_NS, (50, T0 + SECOND_NS)),
        ((100, T0 + 1), 50, T0, (0, T0)),
        ((5, T0), 0, T0 + SECOND_NS, (5, T0)),
    ];
    for ((granted, since_ns), height, now_ns, expected) in rows {
        let mut lease = lease(granted, since_ns, 0);
        lease.forget_grants(height, SECOND_NS, now_ns);
        assert_eq!((lease.granted, lease.since_ns), expected, "{granted} at {now_ns}");
    }
}

/// With a small burst nobody gets more than an equal part of it at once, and less while the limit is dry and
/// something is left.
#[test]
fn parts_of_a_small_burst() {
    let small = || Lender::new(terms().with_burst(60), Room::default());
    let mut lender = small();
    let got = [1, 2, 3].map(|borrower| granted(&mut lender, borrower, &want(100), 0));
    assert_eq!(got, [60, 30, 10]);
    let mut lender = small();
    let offer = lender.offer(KEY, 1, &want(100), T0);
    assert_eq!(offer.take(), 60);
    assert_eq!(lender.settle(offer, 40, T0).granted, 40);
    let offer = lender.offer(KEY, 1, &Ask { left: 40, ..want(100) }, T0);
    assert_eq!(offer.take(), 50, "a quarter of what is left is spared");
    let _ = lender.settle(offer, 0, T0);
    // For a lifetime, and not when the clock was set back.
    for (now_ns, expected) in
        [(T0 + SECOND_NS - 1, 50), (T0 + SECOND_NS, 60), (T0 - 86_400 * SECOND_NS, 60)]
    {
        let mut lender = small();
        let offer = lender.offer(KEY, 1, &want(100), T0);
        let _ = lender.settle(offer, 0, T0);
        let offer = lender.offer(KEY, 1, &Ask { left: 40, ..want(100) }, now_ns);
        assert_eq!(offer.take(), expected, "at {now_ns}");
        let _ = lender.settle(offer, 0, now_ns);
    }
    // Nobody's part is less than a token.
    let mut lender = Lender::new(terms().with_burst(1), Room::default());
    assert_eq!([1, 2].map(|borrower| granted(&mut lender, borrower, &want(10), 0)), [1, 1]);
}

/// What a borrower says it holds, and what the limit is said to have given, are bounded.
#[test]
fn what_is_said_is_not_believed() {
    let mut holds = lender(Room::default());
    assert_eq!(granted(&mut holds, 1, &Ask { left: 500, ..want(10) }, 0), 0);
    assert_eq!(holds.outstanding(&KEY), 100);
    let mut gives = lender(Room::default());
    let offer = gives.offer(KEY, 1, &want(10), T0);
    assert_eq!(gives.settle(offer, 99, T0).granted, 10);
    // Who asks again before the first answer has only what it asked for last.
    let mut twice = lender(Room::default());
    let first = twice.offer(KEY, 1, &want(60), T0);
    let second = twice.offer(KEY, 1, &want(10), T0);
    assert_eq!((first.take(), second.take()), (60, 10));
    let _ = twice.settle(first, 0, T0);
    assert_eq!(twice.outstanding(&KEY), 0);
    let _ = twice.settle(second, 0, T0);
}

/// A sixteenth of a lifetime and up to half as much again, by who asks and when.
#[test]
fn those_who_are_refused_come_back_apart() {
    for (borrower, now_ns, expected) in [
        (1, T0, 62_500_001),
        (1, T0 + 1, 62_500_000),
        (0, T0 + 31_249_999, 93_749_999),
        (0, T0 + 31_250_000, 62_500_000),
    ] {
        let mut lender = lender(Room::default());
        let offer = lender.offer(KEY, borrower, &want(10), now_ns);
        let told = lender.settle(offer, 0, now_ns);
        assert_eq!(told.retry_after_ns, expected, "{borrower} at {now_ns}");
    }
}

#[test]
fn what_expires_is_spent_and_makes_room() {
    let mut lender = lender(Room::default());
    assert_eq!(granted(&mut lender, 1, &want(100), 0), 100);
    assert_eq!(granted(&mut lender, 2, &want(50), 999), 0);
    assert_eq!(granted(&mut lender, 2, &want(50), 1_250), 50);
    assert_eq!((lender.outstanding(&KEY), lender.leases()), (50, 1));
    // One who says goodbye leaves at once.
    assert_eq!(granted(&mut lender, 2, &want(0), 1_300), 0);
    assert_eq!((lender.outstanding(&KEY), lender.leases()), (0, 0));
    // The clock is set back by a day: nothing lives that long.
    assert_eq!(granted(&mut lender, 3, &want(100), 0), 100);
    let early_ns = T0 - 86_400 * SECOND_NS;
    let offer = lender.offer(KEY, 4, &want(10), early_ns);
    assert_eq!(offer.take(), 10);
    let _ = lender.settle(offer, 10, early_ns);
}

#[test]
fn what_was_spent_without_a_lease_is_collected() {
    let mut lender = lender(Room::default());
    let ask = Ask { want: 10, spent: 7, ..Ask::default() };
    let offer = lender.offer(KEY, 1, &ask, T0);
    assert_eq!(offer.take(), 17);
    // The limit has five: they pay for what was spent, and two stay owed.
    let answer = lender.settle(offer, 5, T0);
    assert_eq!(answer.granted, 0);
    assert!(answer.retry_after_ns >= SECOND_NS / 16 && answer.retry_after_ns < SECOND_NS / 8);
    let offer = lender.offer(KEY, 2, &want(10), T0);
    assert_eq!(offer.take(), 12, "by whoever comes next");
    // While that is on its way it is not collected twice.
    let other = lender.offer(KEY, 3, &want(10), T0);
    assert_eq!(other.take(), 10);
    let _ = lender.settle(other, 10, T0);
    assert_eq!(lender.settle(offer, 12, T0).granted, 10);
    // No borrower makes a key owe more than the limit has.
    let offer = lender.offer(KEY, 2, &Ask { spent: u32::MAX, ..want(0) }, T0 + SECOND_NS / 2);
    assert_eq!(offer.take(), 1_000);
    let _ = lender.settle(offer, 0, T0);
}

/// Who finds no room gets no lease, but what was spent is collected all the same.
#[test]
fn what_was_spent_is_collected_without_room() {
    let mut lender = lender(Room { leases_max: 1, ..Room::default() });
    assert_eq!(granted(&mut lender, 1, &want(10), 0), 10);
    let offer = lender.offer(KEY, 2, &Ask { spent: 7, ..want(10) }, T0);
    assert!(offer.is_full());
    assert_eq!(offer.take(), 7);
    // The limit has five: two stay owed by the key, whoever comes next.
    let answer = lender.settle(offer, 5, T0);
    assert_eq!((answer.granted, answer.retry_after_ns), (0, SECOND_NS));
    let offer = lender.offer(KEY, 1, &Ask { left: 10, ..want(10) }, T0);
    assert_eq!(offer.take(), 2);
    let _ = lender.settle(offer, 2, T0);
    // A key that nobody knows: no more than the limit has, and what is not there is forgotten.
    let offer = lender.offer([2; 16], 2, &Ask { spent: u32::MAX, ..want(10) }, T0);
    assert_eq!(offer.take(), 1_000);
    let _ = lender.settle(offer, 0, T0);
    assert_eq!((lender.leases(), lender.full()), (1, 2));
    assert_eq!(lender.outstanding(&KEY), 10);
}

/// What a store without an answer has not given is not held, and what was spent is owed still.
#[test]
fn what_is_given_up_is_owed_still() {
    let mut lender = lender(Room::default());
    let offer = lender.offer(KEY, 1, &Ask { spent: 7, ..want(10) }, T0);
    lender.give_up(offer);
    assert_eq!(lender.outstanding(&KEY), 0);
    let offer = lender.offer(KEY, 1, &want(10), T0);
    assert_eq!(offer.take(), 17);
    assert_eq!(lender.settle(offer, 17, T0).granted, 10);
}

/// A store that fails leaves nothing reserved.
#[test]
fn what_was_not_there_is_not_held() {
    let mut lender = lender(Room::default());
    for i in 0..50 {
        let offer = lender.offer(KEY, i, &want(60), T0);
        let _ = lender.settle(offer, 0, T0);
    }
    assert_eq!(lender.outstanding(&KEY), 0);
    let offer = lender.offer(KEY, 99, &want(60), T0 + 2 * SECOND_NS);
    assert_eq!(offer.take(), 60);
    let _ = lender.settle(offer, 60, T0 + 2 * SECOND_NS);
}

/// Whoever asks ten times as often gets no more of a limit that is dry.
#[test]
fn asking_often_gains_nothing() {
    let mut lender = lender(Room::default());
    let mut got = [0u32; 4];
    let mut available = 0;
    for step in 0..4_000u64 {
        // 100 tokens a second; a step is five milliseconds.
        available += u32::from(step % 2 == 0);
        let now_ns = T0 + step * 5_000_000;
        let asks = |borrower: u64| borrower == 0 || step % 10 == borrower;
        for borrower in (0..4u64).filter(|borrower| asks(*borrower)) {
            let offer = lender.offer(KEY, borrower, &want(1_000), now_ns);
            let taken = offer.take().min(available);
            available -= taken;
            got[borrower as usize] += lender.settle(offer, taken, now_ns).granted;
        }
    }
    let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
    assert!(*least * 10 >= *most * 8 && got.iter().sum::<u32>() > 1_500, "{got:?}");
}

/// A borrower under a flood of keys fills its own part, and pushes out nobody.
#[test]
fn room_for_so_many() {
    let room = Room { keys_max: 40, leases_max: 60, leases_per_borrower_max: 25 };
    let mut lender = lender(room);
    let key = |i: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&i.to_le_bytes());
        key
    };
    let mut ask = |borrower, i, now_ns| {
        let offer = lender.offer(key(i), borrower, &want(1), now_ns);
        let taken = offer.take();
        let answer = lender.settle(offer, taken, now_ns);
        (answer.granted, lender.leases(), lender.accounts.len())
    };
    assert_eq!((0..200).filter(|i| ask(1, *i, T0).0 == 1).count(), 25);
    assert_eq!((100..200).filter(|i| ask(2, *i, T0).0 == 1).count(), 15, "keys");
    assert_eq!((0..200).filter(|i| ask(3, *i, T0).0 == 1).count(), 20, "leases");
    assert_eq!(ask(4, 0, T0).1, 60);
    // Those who have a lease are served all the same.
    assert_eq!(ask(2, 100, T0).0, 1);
    // When all has expired there is room again.
    let (granted, leases, keys) = ask(4, 500, T0 + 2 * SECOND_NS);
    assert_eq!((granted, leases, keys), (1, 1, 1));
    assert!(lender.full() > 0);
}

/// Asks for a key of a limit that has all, and says whether there was no room for that.
fn is_full(lender: &mut Lender, key: u8, borrower: u64, wanted: u32, now_ns: u64) -> bool {
    let offer = lender.offer([key; 16], borrower, &want(wanted), now_ns);
    let (is_full, taken) = (offer.is_full(), offer.take());
    let _ = lender.settle(offer, taken, now_ns);
    is_full
}

/// What has expired is looked for four times in a lifetime, or when the clock was set back.
#[test]
fn room_is_not_looked_for_all_the_time() {
    let failed_ns = T0 + 900_000_000;
    for (now_ns, expected) in [
        (failed_ns + SECOND_NS / 4 - 1, true),
        (failed_ns + SECOND_NS / 4, false),
        (T0 - 86_400 * SECOND_NS, false),
    ] {
        let mut lender = lender(Room { leases_max: 1, ..Room::default() });
        assert!(!is_full(&mut lender, 1, 1, 1, T0));
        assert!(is_full(&mut lender, 2, 2, 1, failed_ns));
        assert_eq!(is_full(&mut lender, 2, 2, 1, now_ns), expected, "at {now_ns}");
    }
}

/// Who says goodbye has room for another key, and for no more than one.
#[test]
fn room_of_one_borrower() {
    let mut lender = lender(Room { leases_per_borrower_max: 2, ..Room::default() });
    let rows = [
        (1, 1, false),
        (2, 1, false),
        (3, 1, true),
        (1, 0, false),
        (3, 1, false),
        (4, 1, true),
        (2, 0, false),
        (3, 0, false),
    ];
    for (key, wanted, expected) in rows {
        assert_eq!(is_full(&mut lender, key, 1, wanted, T0), expected, "{key}: {wanted}");
    }
    assert_eq!((lender.leases(), lender.borrowers.len()), (0, 0));
}

/// Whatever is asked, in whatever order, no more is outstanding than the terms say.
#[test]
fn the_bound_holds_whatever_is_asked() {
    for seed in 1..=30 {
        let mut random = Xorshift::new(seed);
        let mut lender = lender(Room { leases_per_borrower_max: 3, ..Room::default() });
        let mut held: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        let mut now_ns = T0;
        for step in 0..3_000 {
            now_ns += random.below(SECOND_NS / 20);
            let borrower = random.below(9);
            let (mut left, expires_ns) = held.get(&borrower).copied().unwrap_or_default();
            if expires_ns <= now_ns {
                left = 0;
            }
            let left = left - u32::try_from(random.below(u64::from(left) + 1)).unwrap();
            let want = u32::try_from(random.below(150)).unwrap();
            let ask = Ask { want, left, returned: 0, spent: 0 };
            let offer = lender.offer(KEY, borrower, &ask, now_ns);
            let taken = match random.below(3) {
                0 => u32::try_from(random.below(u64::from(offer.take()) + 1)).unwrap(),
                _ => offer.take(),
            };
            let answer = lender.settle(offer, taken, now_ns);
            held.insert(borrower, (left + answer.granted, now_ns + answer.lifetime_ns));
            let lives = held.values().filter(|(_, expires_ns)| *expires_ns > now_ns);
            let sum: u32 = lives.map(|(tokens, _)| *tokens).sum();
            assert!(sum <= 100, "seed {seed}, step {step}: {sum}");
        }
    }
}
