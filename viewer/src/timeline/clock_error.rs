//! Clock error between two hosts, and the blur that shows it.
//!
//! All times of a host have the same error, so everything inside a host is sharp. Relative to another host, an edge is
//! uncertain by the clock error in both directions. If that is wider than a pixel, operations are blurred by it. The
//! reference host stays sharp: the host of the current rank, or else the host whose clock is the axis.

use crate::model::{HostIndex, Window};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Session;

/// Maximum blur radius, in pixels. A wider blur would be unrecognisable; the ruler shows the number.
pub const MAX_BLUR_PX: usize = 48;

/// Returns the host whose clock is the reference.
pub fn reference(session: &Session, rank: Option<RankIndex>) -> HostIndex {
    rank.and_then(|rank| host_of(session, rank)).unwrap_or_else(|| {
        let evidence = session.axis.evidence.as_ref();
        HostIndex(evidence.map_or(0, |evidence| evidence.root_host))
    })
}

fn host_of(session: &Session, rank: RankIndex) -> Option<HostIndex> {
    let rank = session.ranks.get(rank.index())?;
    Some(HostIndex(rank.host))
}

/// Returns the clock error of a host relative to the reference, ± in nanoseconds. `None` if it is unknown.
pub fn between_ns(session: &Session, host: HostIndex, reference: HostIndex) -> Option<i64> {
    if host == reference {
        return Some(0);
    }
    let listed = session.axis.evidence.as_ref().and_then(|evidence| {
        evidence.pairs.iter().find(|pair| {
            let hosts = (HostIndex(pair.one), HostIndex(pair.other));
            hosts == (host, reference) || hosts == (reference, host)
        })
    });
    match listed {
        Some(pair) => pair.error_ns.value,
        None => session.axis.error_between_hosts_ns.value,
    }
}

/// Returns the largest clock error of the ranks' hosts relative to the reference, ± in nanoseconds. `None` if one is
/// unknown.
pub fn largest_ns(session: &Session, ranks: &[RankIndex], reference: HostIndex) -> Option<i64> {
    let mut hosts = ranks.iter().filter_map(|&rank| host_of(session, rank));
    hosts.try_fold(0, |largest: i64, host| {
        between_ns(session, host, reference).map(|error_ns| largest.max(error_ns))
    })
}

/// Returns the blur radius of a rank's operations, in pixels. `pixels` is the width of the window.
pub fn blur_px(
    session: &Session,
    rank: RankIndex,
    reference: HostIndex,
    window: Window,
    pixels: usize,
) -> usize {
    let Some(host) = host_of(session, rank) else {
        return 0;
    };
    // The ruler reports an unknown error. A blur needs a width.
    let Some(error_ns) = between_ns(session, host, reference) else {
        return 0;
    };
    let radius = i128::from(error_ns.max(0)) * pixels as i128 / i128::from(window.length_ns().max(1));
    radius.clamp(0, MAX_BLUR_PX as i128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panels::test_support::made;
    use rankscope_formats::session::{AxisEvidence, ClockPair, Figure};

    #[test]
    fn a_blur_is_as_wide_as_the_error_between_two_hosts() {
        let mut session = made(4, 3).opened.session.clone();
        assert_eq!(session.ranks.iter().map(|rank| rank.host).max(), Some(1));
        session.axis.error_between_hosts_ns = Figure::known(3_000);
        let on_host = |host| {
            let position = session.ranks.iter().position(|rank| rank.host == host);
            RankIndex::of(position.expect("a rank"))
        };
        let (near, far) = (on_host(0), on_host(1));
        let window = Window::between(0, 1_000_000);
        assert_eq!(reference(&session, Some(far)), HostIndex(1));
        assert_eq!(
            blur_px(&session, near, HostIndex(0), window, 1000),
            0,
            "its own host"
        );
        assert_eq!(blur_px(&session, far, HostIndex(0), window, 1000), 3);
        assert_eq!(blur_px(&session, near, HostIndex(1), window, 1000), 3);
        assert_eq!(
            blur_px(&session, far, HostIndex(0), Window::between(0, 10_000_000), 1000),
            0
        );
        assert_eq!(
            blur_px(&session, far, HostIndex(0), Window::between(0, 1_000), 1000),
            MAX_BLUR_PX
        );
        // The figure of this pair of hosts has priority over the figure of all hosts.
        session.axis.evidence = Some(AxisEvidence {
            pairs: vec![ClockPair {
                one: 0,
                other: 1,
                error_ns: Figure::known(8_000),
                sightings: 1,
                left_out: 0,
                segments: Vec::new(),
            }],
            ..AxisEvidence::default()
        });
        assert_eq!(blur_px(&session, far, HostIndex(0), window, 1000), 8);
        session.axis.evidence = None;
        session.axis.error_between_hosts_ns = Figure::unknown("nothing ties them");
        assert_eq!(between_ns(&session, HostIndex(1), HostIndex(0)), None);
        assert_eq!(blur_px(&session, far, HostIndex(0), window, 1000), 0);
    }
}
