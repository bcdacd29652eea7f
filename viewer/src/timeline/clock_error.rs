//! How far the clocks of two hosts may be apart, and the haze that says so.
//!
//! All times of a host are off by the same: inside it everything is sharp. Towards another host an edge lies somewhere in a
//! stretch of twice the error. Where that is wider than a pixel, operations are blurred by it: on all hosts but the one
//! from which one looks, which is that of the rank that keys refer to, else the host whose time the axis is.

use crate::model::Window;
use rankscope_formats::session::Session;

/// A blur is at most so wide to each side, pixels: beyond, nobody would see what it is. The ruler says the number.
pub const MOST_BLUR_PX: usize = 48;

/// Which host's clock is taken as right.
pub fn reference(session: &Session, rank: Option<u32>) -> u32 {
    let of_rank = rank.and_then(|rank| session.ranks.get(rank as usize));
    of_rank.map_or_else(
        || {
            session
                .axis
                .evidence
                .as_ref()
                .map_or(0, |evidence| evidence.root_host)
        },
        |rank| rank.host,
    )
}

/// How far a host's times may be off against those of the reference, ± ns. `None`: nobody knows.
pub fn between_ns(session: &Session, host: u32, reference: u32) -> Option<i64> {
    if host == reference {
        return Some(0);
    }
    let listed = session.axis.evidence.as_ref().and_then(|evidence| {
        evidence.pairs.iter().find(|pair| {
            (pair.one, pair.other) == (host, reference) || (pair.one, pair.other) == (reference, host)
        })
    });
    match listed {
        Some(pair) => pair.error_ns.value,
        None => session.axis.error_between_hosts_ns.value,
    }
}

/// By how many pixels operations of a rank are blurred, in a window of so many.
pub fn blur_px(session: &Session, rank: u32, reference: u32, window: Window, pixels: usize) -> usize {
    let Some(host) = session.ranks.get(rank as usize).map(|rank| rank.host) else {
        return 0;
    };
    // What nobody knows is said at the ruler: a blur has a width.
    let Some(error_ns) = between_ns(session, host, reference) else {
        return 0;
    };
    let radius = i128::from(error_ns.max(0)) * pixels as i128 / i128::from(window.length_ns().max(1));
    radius.clamp(0, MOST_BLUR_PX as i128) as usize
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
        let (near, far) = (
            session
                .ranks
                .iter()
                .position(|rank| rank.host == 0)
                .expect("a rank") as u32,
            session
                .ranks
                .iter()
                .position(|rank| rank.host == 1)
                .expect("a rank") as u32,
        );
        let window = Window::between(0, 1_000_000);
        assert_eq!(reference(&session, Some(far)), 1);
        assert_eq!(blur_px(&session, near, 0, window, 1000), 0, "its own host");
        assert_eq!(blur_px(&session, far, 0, window, 1000), 3);
        assert_eq!(blur_px(&session, near, 1, window, 1000), 3);
        assert_eq!(blur_px(&session, far, 0, Window::between(0, 10_000_000), 1000), 0);
        assert_eq!(
            blur_px(&session, far, 0, Window::between(0, 1_000), 1000),
            MOST_BLUR_PX
        );
        // What is known of just these two counts more than what holds for all.
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
        assert_eq!(blur_px(&session, far, 0, window, 1000), 8);
        session.axis.evidence = None;
        session.axis.error_between_hosts_ns = Figure::unknown("nothing ties them");
        assert_eq!(between_ns(&session, 1, 0), None);
        assert_eq!(blur_px(&session, far, 0, window, 1000), 0);
    }
}
