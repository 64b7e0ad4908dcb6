//! Plain lists.

use super::*;

/// Lists as Spamhaus, FireHOL, Tor and others publish them.
#[test]
fn plain_lists() {
    let text = "\u{feff}; Spamhaus DROP List\r\n# comment\r\n\r\n192.0.2.0/24 ; SBL1\r\n\
                198.51.100.7\tsome text\n203.0.113.0/24;SBL2\n  10.0.0.1#x\n2001:db8::/32\n::1 ; a";
    let list = NetworkList::parse_plain(text, "deny", 6).unwrap();
    assert_eq!(list.entries(), 6);
    let action = |list: &NetworkList, address: &str| list.find(address.parse().unwrap(), 7).action;
    for address in ["192.0.2.9", "198.51.100.7", "203.0.113.255", "10.0.0.1", "2001:db8::9", "::1"]
    {
        assert_eq!(action(&list, address), Some(Action::Deny), "{address}");
    }
    assert_eq!(action(&list, "198.51.100.8"), None);
    let tagged = NetworkList::parse_plain("192.0.2.1", "tag=tor", 1).unwrap();
    assert_eq!((tagged.tags(), action(&tagged, "192.0.2.1")), (&["tor".to_owned()][..], None));
    let allowed = NetworkList::parse_plain("192.0.2.1 deny", "allow", 1).unwrap();
    assert_eq!(action(&allowed, "192.0.2.1"), Some(Action::Allow));
    let rows = [
        (text, 5, "line 9: there are more than 5 entries"),
        ("", 9, "line 1: there is no network in the whole list"),
        ("# nothing\n;\n", 9, "line 2: there is no network"),
        ("192.0.2.1\n<!DOCTYPE html>", 9, "line 2: \"<!DOCTYPE\": "),
        ("<html><body>404", 9, "line 1: \"<html><body>404\": "),
        ("{\"cidr\":\"192.0.2.0/24\"}", 9, "line 1: "),
        ("192.0.2.1,192.0.2.2", 9, "line 1: "),
        ("192.0.2.1/24", 9, "line 1: \"192.0.2.1/24\": "),
        ("0.0.0.0/0", 9, "line 1: it is all addresses"),
        ("192.0.2.1\n::/0", 9, "line 2: it is all addresses"),
        ("192.0.2.1\nlocalhost", 9, "line 2: \"localhost\": "),
    ];
    for (text, max, expected) in rows {
        let told = NetworkList::parse_plain(text, "deny", max).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{text:?}: {told}");
    }
}
