//! Plain lists, and lists that become stale.

use super::*;

/// A list of others needs no digest, and one that is damaged or no list changes nothing.
#[test]
fn plain_lists() {
    let shared = Memory::default();
    let mut feed = Feed::restored(plain("deny"), &shared);
    let text = "; a list\n10.0.0.0/8 ; SBL1\n";
    let change = feed.answered(&response("200", text, "\"a\"", ""), T0, &shared);
    assert_eq!(change, Ok(Change::Replaced));
    assert!(denies(&feed, "10.1.1.1"));
    for (body, digest, expected) in [
        ("<html><body>Not here</body></html>", "", "line 1: \"<html><body>Not\""),
        ("11.0.0.0/8\ngarbage", "", "line 2: \"garbage\""),
        ("", "", "there is no network"),
        ("0.0.0.0/0", "", "it is all addresses"),
        ("11.0.0.0/8", "sha-256=:AAAA:", "no right sha-256"),
    ] {
        let told = feed.answered(&response("200", body, "", digest), T0, &shared).unwrap_err();
        assert!(told.contains(expected) && told.contains("stays as it was"), "{told}");
        assert!(denies(&feed, "10.1.1.1") && !denies(&feed, "11.1.1.1"));
    }
    // With a digest it has to be right, and is.
    assert_eq!(feed.answered(&good("12.0.0.0/8", ""), T0, &shared), Ok(Change::Replaced));
    assert!(denies(&feed, "12.1.1.1"));
    // A new VM begins with it, but not if it says something else, or is of another form.
    for (source, expected) in [(plain("deny"), true), (plain("tag=a"), false), (source(), false)] {
        assert_eq!(
            denies(&Feed::restored(source.clone(), &shared), "12.1.1.1"),
            expected,
            "{source:?}"
        );
    }
    let mut tagged = Feed::restored(plain("tag=tor"), &shared);
    tagged.answered(&response("200", "10.0.0.1", "", ""), T0, &shared).unwrap();
    assert_eq!(tagged.list().map(NetworkList::tags), Some(&["tor".to_owned()][..]));
}

/// One that is too old is told once, until there is a good answer; a new VM knows how old it is.
#[test]
fn stale_lists() {
    let shared = Memory::default();
    let aging = || Source { max_age_seconds: Some(100), ..plain("deny") };
    let mut feed = Feed::restored(aging(), &shared);
    let at = |seconds: u64| T0 + seconds * SECOND_NS;
    // Never fetched: missed since the first look.
    assert!(feed.watch(T0).is_none() && feed.watch(at(100)).is_none() && !feed.is_stale());
    let told = feed.watch(at(100) + 1).unwrap();
    assert!(told.contains("list \"block\" is stale") && told.contains("applies"), "{told}");
    assert!(feed.is_stale() && feed.watch(at(200)).is_none());
    feed.answered(&response("200", "10.0.0.1", "\"a\"", ""), at(200), &shared).unwrap();
    assert!(!feed.is_stale() && feed.watch(at(300)).is_none() && !feed.is_stale());
    // That nothing has changed is a good answer; that there is none is not.
    feed.answered(&response("304", "", "", ""), at(250), &shared).unwrap();
    feed.answered(&response("503", "", "", ""), at(300), &shared).unwrap_err();
    assert!(feed.watch(at(350)).is_none() && feed.watch(at(351)).is_some());
    let required = Source { required: true, ..aging() };
    let mut next = Feed::restored(required, &shared);
    assert!(next.watch(at(350)).is_none() && !next.is_empty());
    assert!(next.watch(at(351)).unwrap().contains("answered with 503"));
    // The clock was set back.
    assert!(next.watch(T0).is_none() && !next.is_stale());
    assert!(next.watch(at(101)).is_some());
    let mut ageless = Feed::restored(plain("deny"), &shared);
    assert!(ageless.watch(T0).is_none() && ageless.watch(u64::MAX).is_none());
}
