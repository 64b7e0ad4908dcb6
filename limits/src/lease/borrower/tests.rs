//! What a key may spend, when it asks for more, and what it says then.

use super::*;
use crate::xorshift::Xorshift;

const SECOND_NS: u64 = 1_000_000_000;
const T0: u64 = 1_700_000_000 * SECOND_NS;
const MS_NS: u64 = 1_000_000;

/// Four unleased tokens a minute; a lease lives six seconds at most.
fn borrower() -> Borrower {
    Borrower::new(4, 60 * SECOND_NS).unwrap()
}

fn spend(state: &mut Borrowed, at_ms: u64) -> (Spent, Wish) {
    let now_ns = T0 + at_ms * MS_NS;
    let (next, spent, wish) = borrower().spend(*state, now_ns, 1, 500 * MS_NS);
    *state = next;
    (spent, wish)
}

fn ask(state: &mut Borrowed, at_ms: u64) -> Ask {
    let now_ns = T0 + at_ms * MS_NS;
    let (next, ask) = borrower().ask(*state, now_ns, now_ns + 500 * MS_NS);
    *state = next;
    ask
}

fn answer(state: &mut Borrowed, at_ms: u64, asked: &Ask, granted: u32, retry_ms: u64) {
    let answer = Answer { granted, lifetime_ns: 6 * SECOND_NS, retry_after_ns: retry_ms * MS_NS };
    let now_ns = T0 + at_ms * MS_NS;
    *state = borrower().answered(*state, now_ns, now_ns, asked, &answer);
}

const fn allowed(remaining: u32) -> Spent {
    Spent::Allowed { remaining }
}

const fn refused(after_ms: u64) -> Spent {
    Spent::Refused { retry_after_ns: after_ms * MS_NS }
}

#[test]
fn only_a_hot_key_asks() {
    let mut state = Borrowed::default();
    assert_eq!(spend(&mut state, 0), (allowed(3), Wish::None));
    assert_eq!(spend(&mut state, 10), (allowed(2), Wish::Soon));
    // The question is under way; what is unleased bridges the time.
    assert_eq!(spend(&mut state, 20), (allowed(1), Wish::None));
    let mut burst = state;
    assert_eq!(spend(&mut burst, 21), (allowed(0), Wish::None));
    assert_eq!(spend(&mut burst, 22), (refused(488), Wish::Now), "it has waited enough");
    assert_eq!(spend(&mut burst, 23), (refused(499), Wish::None));
    let asked = ask(&mut state, 30);
    // Three in 30 ms, which is taken as an eighth of a lifetime, and a quarter more.
    assert_eq!(asked, Ask { want: 30, left: 0, returned: 0, spent: 3 });
    assert_eq!(spend(&mut state, 40), (allowed(0), Wish::None));
    assert_eq!(spend(&mut state, 41), (refused(489), Wish::None));
    answer(&mut state, 50, &asked, 30, 0);
    assert_eq!(spend(&mut state, 60), (allowed(29), Wish::None));
    // One that was spent meanwhile is told the next time.
    assert_eq!(ask(&mut state, 1_050).spent, 1);
}

/// With one unleased token each key asks with its first request; with none there is no borrower.
#[test]
fn one_unleased_token() {
    let one = Borrower::new(1, 60 * SECOND_NS).unwrap();
    let (_, spent, wish) = one.spend(Borrowed::default(), T0, 1, 0);
    assert_eq!((spent, wish), (allowed(0), Wish::Soon));
    assert_eq!(Borrower::new(0, SECOND_NS), Err(BucketError::BurstZero));
    assert_eq!(Borrower::new(1, 0), Err(BucketError::PeriodZero));
}

/// No question is believed to be under way for longer than ten seconds.
#[test]
fn a_question_is_waited_for_ten_seconds_at_most() {
    let one = Borrower::new(1, 60 * SECOND_NS).unwrap();
    let (soon, ..) = one.spend(Borrowed::default(), T0, 1, 0);
    let (hurried, spent, wish) = one.spend(soon, T0, 1, u64::MAX);
    assert_eq!((spent, wish), (refused(0), Wish::Now));
    let rows = [
        (T0, RETRY_NS, Wish::None),
        (T0 + ASKED_NS_MAX - 1, 1, Wish::None),
        (T0 + ASKED_NS_MAX, 0, Wish::Now),
        // The clock was set back.
        (T0 - 1, 0, Wish::Now),
    ];
    for (now_ns, retry_after_ns, expected) in rows {
        let (_, spent, wish) = one.spend(hurried, now_ns, 1, 0);
        assert_eq!((spent, wish), (Spent::Refused { retry_after_ns }, expected), "at {now_ns}");
    }
    let (asked, _) = one.ask(soon, T0, u64::MAX);
    assert_eq!(one.spend(asked, T0 + ASKED_NS_MAX - 1, 1, 0).2, Wish::None);
    assert_eq!(one.spend(asked, T0 + ASKED_NS_MAX, 1, 0).2, Wish::Now);
}

/// A tenth of a short window is less than what a lender that is away, or has nothing, is waited for.
#[test]
fn short_windows() {
    let short = Borrower::new(1, SECOND_NS).unwrap();
    let away = short.failed(Borrowed::default(), T0);
    let (_, spent, wish) = short.spend(away, T0, 1, 0);
    assert_eq!((spent, wish), (Spent::Away, Wish::None));
    let told = Answer { granted: 0, lifetime_ns: SECOND_NS / 10, retry_after_ns: 900 * MS_NS };
    let asked = Ask { want: 1, ..Ask::default() };
    let dry = short.answered(Borrowed::default(), T0, T0, &asked, &told);
    let (_, spent, wish) = short.spend(dry, T0, 1, 0);
    assert_eq!((spent, wish), (refused(900), Wish::None));
    // In the shortest of all a lease does not live at all.
    let shortest = Borrower::new(1, 1).unwrap();
    assert_eq!(shortest.ask(Borrowed::default(), T0, T0).1, Ask::default());
}

/// A key with one request in twenty seconds costs the lender nothing, for ever.
#[test]
fn a_cold_key_never_asks() {
    let mut state = Borrowed::default();
    for i in 0..100 {
        let (spent, wish) = spend(&mut state, i * 20_000);
        assert!(matches!(spent, Spent::Allowed { .. }) && wish == Wish::None, "{i}");
    }
}

#[test]
fn a_lease_is_spent_asked_for_and_expires() {
    let mut state = Borrowed::default();
    let asked = Ask { want: 9, ..Ask::default() };
    answer(&mut state, 0, &asked, 9, 0);
    for left in (3..9).rev() {
        assert_eq!(spend(&mut state, 100), (allowed(left), Wish::None));
    }
    assert_eq!(spend(&mut state, 100), (allowed(2), Wish::Soon), "less than a third");
    assert_eq!(spend(&mut state, 100), (allowed(1), Wish::None), "asked already");
    let mut waits = state;
    assert_eq!(spend(&mut waits, 599), (allowed(0), Wish::None), "it may come still");
    assert_eq!(spend(&mut state, 600), (allowed(0), Wish::Soon), "that was lost");
    assert_eq!(spend(&mut state, 5_999), (allowed(3), Wish::Soon), "unleased");
    let mut state = Borrowed::default();
    answer(&mut state, 0, &asked, 9, 0);
    assert_eq!(borrower().renewal_ns(&state), Some(T0 + 4_500 * MS_NS));
    let mut at_once = state;
    assert_eq!(spend(&mut at_once, 0), (allowed(8), Wish::None));
    assert_eq!(spend(&mut state, 5_999), (allowed(8), Wish::None));
    assert_eq!(spend(&mut state, 6_000), (allowed(3), Wish::None), "expired");
    // An answer that comes after its own end grants nothing.
    let mut late = Borrowed::default();
    let told = Answer { granted: 9, lifetime_ns: SECOND_NS, retry_after_ns: 0 };
    late = borrower().answered(late, T0 + SECOND_NS, T0, &asked, &told);
    assert_eq!(spend(&mut late, 1_000), (allowed(3), Wish::None));
}

/// When a third is left; where that is less than was wanted, when there is less than a seventh of a lifetime uses.
#[test]
fn when_more_is_asked_for() {
    let spend_down = |mut state: Borrowed, granted: u32, until: u32| {
        for left in (until + 1..granted).rev() {
            assert_eq!(spend(&mut state, 100), (allowed(left), Wish::None), "{granted}");
        }
        assert_eq!(spend(&mut state, 100), (allowed(until), Wish::Soon), "{granted}");
    };
    for (granted, until) in [(1, 0), (8, 2), (9, 2)] {
        let mut state = Borrowed::default();
        answer(&mut state, 0, &Ask { want: granted, ..Ask::default() }, granted, 0);
        spend_down(state, granted, until);
    }
    for (demand, until) in [(14, 19), (4, 9)] {
        let mut state = Borrowed::default();
        for _ in 0..demand {
            let _ = spend(&mut state, 0);
        }
        let asked = ask(&mut state, 0);
        assert_eq!(asked.want, 10 * demand);
        answer(&mut state, 0, &asked, 30, 0);
        spend_down(state, 30, until);
    }
}

/// A lender that had less than was wanted is not hurried when that is spent, and the unleased tokens are.
#[test]
fn who_is_hurried() {
    for (granted, wish) in [(4, Wish::Now), (3, Wish::None)] {
        let mut state = Borrowed::default();
        answer(&mut state, 0, &Ask { want: 4, ..Ask::default() }, granted, 0);
        for _ in 0..granted + 4 {
            assert!(matches!(spend(&mut state, 100).0, Spent::Allowed { .. }));
        }
        assert_eq!(spend(&mut state, 100), (refused(500), wish), "{granted}");
    }
    // A refusal is over when the key was not used any more.
    let mut state = Borrowed::default();
    answer(&mut state, 0, &Ask { want: 5, ..Ask::default() }, 0, 1_500);
    let asked = ask(&mut state, 2_000);
    assert_eq!(asked, Ask::default());
    answer(&mut state, 2_010, &asked, 0, 0);
    for left in (0..4).rev() {
        assert_eq!(spend(&mut state, 2_020).0, allowed(left));
    }
    assert_eq!(spend(&mut state, 2_020), (refused(500), Wish::Now));
}

#[test]
fn answers_that_are_late_or_too_much() {
    let asked = Ask { want: 9, ..Ask::default() };
    let told = |granted, lifetime_ns| Answer { granted, lifetime_ns, retry_after_ns: 0 };
    // No lease lives longer than a tenth of the window.
    let mut long = borrower().answered(Borrowed::default(), T0, T0, &asked, &told(9, u64::MAX));
    assert_eq!(spend(&mut long, 5_999).0, allowed(8));
    // One that is over when it comes does not end a refusal.
    let mut late = Borrowed::default();
    answer(&mut late, 0, &asked, 0, 5_000);
    late = borrower().answered(late, T0 + SECOND_NS, T0, &asked, &told(9, SECOND_NS));
    assert_eq!(spend(&mut late, 1_000), (refused(4_000), Wish::None));
    // One to an older question does not shorten what is left.
    let mut older = Borrowed::default();
    answer(&mut older, 0, &asked, 9, 0);
    let (now_ns, asked_ns) = (T0 + 2 * SECOND_NS, T0 - SECOND_NS);
    let asked = Ask { left: 9, ..asked };
    older = borrower().answered(older, now_ns, asked_ns, &asked, &told(0, 6 * SECOND_NS));
    assert_eq!(spend(&mut older, 5_500).0, allowed(8));
    // What is granted and was not wanted can be spent.
    let mut more = Borrowed::default();
    answer(&mut more, 0, &Ask::default(), 2, 0);
    assert_eq!(spend(&mut more, 0).0, allowed(1));
}

#[test]
fn what_is_not_used_is_given_back() {
    let mut state = Borrowed::default();
    let asked = Ask { want: 100, ..Ask::default() };
    answer(&mut state, 0, &asked, 100, 0);
    for _ in 0..8 {
        let _ = spend(&mut state, 100);
    }
    // Eight in four seconds of six: fifteen would do.
    assert_eq!(ask(&mut state, 4_000), Ask { want: 15, left: 15, returned: 77, spent: 0 });
    // A quarter of a lifetime is long enough to tell a new pace, less is not.
    let (mut early, mut late) = (state, state);
    assert_eq!(ask(&mut early, 5_499), Ask { want: 15, left: 15, returned: 0, spent: 0 });
    assert_eq!(ask(&mut late, 5_500), Ask { want: 0, left: 0, returned: 15, spent: 0 });
    // Nothing since: all of it.
    answer(&mut state, 4_001, &Ask { want: 15, ..Ask::default() }, 1, 0);
    assert_eq!(ask(&mut state, 9_000), Ask { want: 0, left: 0, returned: 16, spent: 0 });
    answer(&mut state, 9_001, &Ask::default(), 0, 0);
    let settled = borrower().settled(state, T0 + 9_001 * MS_NS);
    assert!(borrower().is_blank(&settled, T0 + 9_001 * MS_NS), "{settled:?}");
}

/// A surplus of a quarter of what is wanted is kept.
#[test]
fn a_little_more_is_not_given_back() {
    for (used, granted, want, left, returned) in
        [(8, 33, 20, 25, 0), (8, 34, 20, 20, 6), (7, 30, 18, 18, 5)]
    {
        let mut state = Borrowed::default();
        answer(&mut state, 0, &Ask { want: 100, ..Ask::default() }, granted, 0);
        for _ in 0..used {
            let _ = spend(&mut state, 100);
        }
        assert_eq!(ask(&mut state, 3_000), Ask { want, left, returned, spent: 0 });
    }
}

/// A lender that has nothing to add has not refused: what is left lives on.
#[test]
fn what_is_left_lives_on() {
    let mut state = Borrowed::default();
    answer(&mut state, 0, &Ask { want: 9, ..Ask::default() }, 9, 0);
    answer(&mut state, 100, &Ask { want: 9, left: 9, ..Ask::default() }, 0, 5_000);
    let mut later = state;
    assert_eq!(spend(&mut later, 6_050), (allowed(8), Wish::None));
    for left in (0..9).rev() {
        assert_eq!(spend(&mut state, 200).0, allowed(left));
    }
    assert_eq!(spend(&mut state, 200).0, allowed(3), "unleased");
}

#[test]
fn a_refusal_holds_until_the_next_answer() {
    let mut state = Borrowed::default();
    let asked = Ask { want: 5, ..Ask::default() };
    answer(&mut state, 0, &asked, 0, 1_500);
    assert_eq!(spend(&mut state, 100), (refused(1_400), Wish::None));
    assert_eq!(spend(&mut state, 1_500), (refused(0), Wish::Soon));
    assert_eq!(spend(&mut state, 1_501), (refused(0), Wish::None));
    let asked = ask(&mut state, 1_510);
    assert!(asked.want > 0, "what was refused is wanted, too");
    answer(&mut state, 1_520, &asked, 2, 0);
    // Less than was wanted is soon gone, so more is asked for at once.
    assert_eq!(spend(&mut state, 1_530), (allowed(1), Wish::Soon));
    // No time that a lender names is too long to be mended.
    answer(&mut state, 1_540, &asked, 0, u64::MAX / MS_NS);
    assert_eq!(spend(&mut state, 1_550).0, allowed(0));
    assert_eq!(spend(&mut state, 1_550).0, refused(5_990));
}

#[test]
fn without_a_lender_the_policy_decides() {
    let mut state = Borrowed::default();
    assert_eq!(spend(&mut state, 0).0, allowed(3));
    state = borrower().failed(state, T0 + MS_NS);
    assert_eq!(spend(&mut state, 2), (Spent::Away, Wish::None));
    assert_eq!(spend(&mut state, 1_000), (Spent::Away, Wish::None));
    assert_eq!(spend(&mut state, 1_001), (Spent::Away, Wish::Soon));
    assert_eq!(spend(&mut state, 1_002), (Spent::Away, Wish::None));
    // A lease that is there is spent first.
    let mut leased = Borrowed::default();
    answer(&mut leased, 0, &Ask { want: 1, ..Ask::default() }, 1, 0);
    leased = borrower().failed(leased, T0 + MS_NS);
    assert_eq!(spend(&mut leased, 2).0, allowed(0));
    assert_eq!(spend(&mut leased, 2).0, Spent::Away);
    // What was spent meanwhile is not forgotten.
    assert_eq!(ask(&mut state, 2_000).spent, 1);
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_alive() {
    let mut state = Borrowed::default();
    answer(&mut state, 100_000, &Ask { want: 9, ..Ask::default() }, 9, 0);
    let _ = spend(&mut state, 100_001);
    assert_eq!(spend(&mut state, 92_000), (allowed(2), Wish::Soon), "the lease is gone");
    // Two requests in three seconds of six: what was counted counts from then on.
    assert_eq!(ask(&mut state, 95_000), Ask { want: 5, left: 0, returned: 0, spent: 1 });
    let mut dry = Borrowed::default();
    answer(&mut dry, 100_000, &Ask { want: 9, ..Ask::default() }, 0, 6_000);
    let mut waits = dry;
    assert_eq!(spend(&mut waits, 100_000), (refused(6_000), Wish::None));
    assert_eq!(spend(&mut dry, 99_999), (refused(0), Wish::Soon), "nobody waits for longer");
    let rest = [0xFF; Borrowed::BYTES];
    let hostile = Borrowed::read(&rest).unwrap();
    let (_, spent, _) = borrower().spend(hostile, T0, 1, 0);
    assert_eq!(spent, refused(0));
}

/// Which states say nothing, and when one with a lease has it renewed.
#[test]
fn states_that_say_nothing() {
    let blank = Borrowed::default();
    let rows = [
        (blank, true),
        (Borrowed { tokens: 1, ..blank }, false),
        (Borrowed { unleased_ns: T0 + 1, ..blank }, false),
        (Borrowed { asked_until_ns: T0 + 1, ..blank }, false),
        (Borrowed { next_ns: T0 + 1, ..blank }, false),
        (Borrowed { unleased_ns: T0, asked_until_ns: T0, next_ns: T0, ..blank }, true),
    ];
    for (state, expected) in rows {
        assert_eq!(borrower().is_blank(&state, T0), expected, "{state:?}");
    }
    assert_eq!(borrower().renewal_ns(&blank), None);
    let mut leased = blank;
    answer(&mut leased, 0, &Ask { want: 1, ..Ask::default() }, 1, 0);
    assert_eq!(borrower().renewal_ns(&leased), Some(T0 + 4_500 * MS_NS));
    let times = (borrower().lifetime_ns(), borrower().patience_ns());
    assert_eq!(times, (6 * SECOND_NS, 600 * MS_NS));
}

/// Any state is one, and is read as it was written.
#[test]
fn bytes_of_states() {
    let mut random = Xorshift::new(7);
    for _ in 0..1_000 {
        let bytes: Vec<u8> = (0..Borrowed::BYTES).map(|_| random.next().to_le_bytes()[1]).collect();
        let state = Borrowed::read(&bytes).unwrap();
        let mut written = Vec::new();
        state.write(&mut written);
        assert_eq!(Borrowed::read(&written), Some(state));
        for now_ns in [0, T0, u64::MAX] {
            let (next, ..) = borrower().spend(state, now_ns, 1 + random.next() as u32 / 2, 9);
            let (next, asked) = borrower().ask(next, now_ns, u64::MAX);
            let told =
                Answer { granted: u32::MAX, lifetime_ns: u64::MAX, retry_after_ns: u64::MAX };
            let _ = borrower().answered(next, now_ns, now_ns, &asked, &told);
        }
    }
    assert_eq!(Borrowed::read(&[0; Borrowed::BYTES - 1]), None);
    assert_eq!(Borrowed::read(&[0; Borrowed::BYTES + 1]), None);
}
