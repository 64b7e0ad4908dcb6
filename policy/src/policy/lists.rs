//! What the address lists say of a request.

use super::{Case, Policy, Reason, SECOND_NS, Verdict};
use crate::config::FailureMode;
use crate::feed::{Feed, Kind};
use crate::shared::SharedData;
use glacis_limits::network_list::Action;
use std::net::IpAddr;

/// The marks of an address in fetched lists. Allow beats deny.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    allowed: bool,
    denied: bool,
    /// By a list in shadow mode.
    shadow_denied: bool,
}

impl Policy {
    /// Judges the client by its address, and adds the tags that lists give it.
    pub(super) fn judge_address(&self, case: &mut Case<'_, '_, impl SharedData>) -> Verdict {
        let (lists, feeds) = (&self.config.lists, case.feeds);
        let client = case.facts.client;
        let listed = client.map(|client| look_up(client, feeds, case.now_ns, &mut case.facts.tags));
        let listed = listed.unwrap_or_default();
        let mut verdict = Verdict::Passed;
        match client {
            Some(client) if lists.allow.contains(client) || listed.allowed => {
                return Verdict::AllowedByList;
            }
            Some(client) => {
                let denied = lists.deny.contains(client) || listed.denied;
                if denied && !lists.shadow {
                    return Verdict::DeniedByList;
                }
                if denied || listed.shadow_denied {
                    verdict = Verdict::ShadowDeniedByList;
                }
            }
            None if !lists.shadow && (!lists.deny.is_empty() || lists.has_enforced_feeds()) => {
                return self.undecided(Reason::NoAddress);
            }
            None => {}
        }
        // Patches may be missing, too, and they are for requests without an address as well.
        let missing = feeds.iter().find_map(|feed| self.missing(feed));
        // A list that is required is relied on, whatever the failure mode is.
        missing.map_or(verdict, |reason| Verdict::Undecided(reason, FailureMode::Closed))
    }

    /// Why a feed that is required is no help.
    fn missing(&self, feed: &Feed) -> Option<Reason> {
        let shadow = match feed.source.kind {
            Kind::List => self.config.lists.shadow,
            Kind::Patches => self.config.patch_shadow,
            // Limits may count by them.
            Kind::Countries | Kind::Systems => false,
        };
        match feed.source.required && !shadow && !feed.source.shadow {
            true if feed.is_empty() => Some(Reason::NoList),
            true if feed.is_stale() => Some(Reason::StaleList),
            true | false => None,
        }
    }
}

/// Looks an address up in all fetched lists, and adds its tags.
fn look_up(client: IpAddr, feeds: &[Feed], now_ns: u64, tags: &mut Vec<String>) -> Listed {
    let mut listed = Listed::default();
    let lists = feeds.iter().filter_map(|feed| Some((feed.list()?, feed.source.shadow)));
    for (list, shadow) in lists {
        let found = list.find(client, now_ns / SECOND_NS);
        match (found.action, shadow) {
            (Some(Action::Allow), _) => listed.allowed = true,
            (Some(Action::Deny), false) => listed.denied = true,
            (Some(Action::Deny), true) => listed.shadow_denied = true,
            (None, _) => {}
        }
        let mut bits = found.tag_bits;
        for tag in list.tags() {
            if bits & 1 == 1 && !tags.contains(tag) {
                tags.push(tag.clone());
            }
            bits >>= 1;
        }
    }
    listed
}
