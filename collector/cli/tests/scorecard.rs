//! Tests scores against values computed by hand, and values that are given to a report.

use rankscope_analysis::findings;
use rankscope_analysis::model::declared::{DeclaredLimits, latency_limit, peak};
use rankscope_analysis::summary::scorecard::scorecard;
use rankscope_fixtures::sessions::Job;
use rankscope_formats::session::Scope;
use rankscope_formats::session::Severity;
use rankscope_formats::session::*;

const MS: i64 = 1_000_000;

fn quantiles(p25: f64, p50: f64, p75: f64, p99: f64) -> Quantiles {
    Quantiles {
        count: 100,
        min: p25,
        p25,
        p50,
        p75,
        p90: p75,
        p99,
        max: p99,
        sum: p50 * 100.0,
        relative_error: 0.01,
    }
}

/// Returns a session whose scores can be computed by hand.
fn session() -> Session {
    let mut session = Job::new(4, 40).session();
    session.axis.end_ns = 1_000 * MS;
    for entry in &mut session.breakdown {
        // 4 ranks × 100 ms, of which 4 × 8 ms waiting: balance 92.
        (entry.window_ns, entry.exposed_wait_ns) = (100 * MS, 8 * MS);
        entry.operations_without_times = 0;
    }
    // Half of the steps are within 3 of 100 ms: 100 · (1 − 5 · 0.03) = 85.
    session.steps.duration_ns = Figure::known(quantiles(99e6, 100e6, 102e6, 120e6));
    session.totals.failed = 0;
    session.small_launches = vec![SmallLaunches {
        scope: Scope::InsideHost,
        transfer_ns: quantiles(20e3, 30e3, 40e3, 80e3),
    }];
    for class in &mut session.operations {
        class.transfer_bound = TransferBound::default();
    }
    // 3 GB on the bus in 1 s: a quarter of a peak of 12 GB/s.
    session.operations[0].transfer_bound = TransferBound {
        launches: 30,
        bus_bytes: 3e9,
        transfer_ns: 1e9,
    };
    session.findings.clear();
    session
}

fn stated(peaks: &[&str], limits: &[&str]) -> DeclaredLimits {
    DeclaredLimits {
        peaks: peaks.iter().map(|text| peak(text).expect("a peak")).collect(),
        latency_limits: limits
            .iter()
            .map(|text| latency_limit(text).expect("a limit"))
            .collect(),
    }
}

fn score(card: &Scorecard, name: &str) -> Figure<f64> {
    let found = card.dimensions.iter().find(|score| score.name == name);
    found.expect("a dimension").score.clone()
}

fn close(one: Figure<f64>, other: f64) {
    let value = one.value.unwrap_or(f64::NAN);
    assert!((value - other).abs() < 1e-9, "{value} is not {other}");
}

#[test]
fn all_four_dimensions_by_hand() {
    let card = scorecard(&session(), &stated(&["12"], &["60us"]));
    close(score(&card, "bandwidth"), 25.0);
    close(score(&card, "latency"), 75.0);
    close(score(&card, "balance"), 92.0);
    close(score(&card, "stability"), 85.0);
    // 25 · 0.30 + 75 · 0.25 + 92 · 0.25 + 85 · 0.20
    close(card.total.clone(), 7.5 + 18.75 + 23.0 + 17.0);
    assert_eq!(card.grade.as_deref(), Some("needs work"));
    let bandwidth = &card.dimensions[0];
    close(bandwidth.numerator.clone(), 3e9);
    close(bandwidth.denominator.clone(), 12e9);
    close(bandwidth.applied_percent.clone(), 30.0);
}

#[test]
fn weights_add_up_if_a_dimension_is_unknown() {
    let card = scorecard(&session(), &stated(&[], &["80us"]));
    assert!(score(&card, "bandwidth").value.is_none());
    close(score(&card, "latency"), 100.0);
    // 25, 25 and 20 of 70.
    close(card.dimensions[1].applied_percent.clone(), 25.0 / 70.0 * 100.0);
    close(
        card.total.clone(),
        (100.0 * 25.0 + 92.0 * 25.0 + 85.0 * 20.0) / 70.0,
    );
    assert_eq!(card.grade.as_deref(), Some("excellent"));
    let two = scorecard(&session(), &DeclaredLimits::default());
    assert!(two.total.value.is_none() && two.grade.is_none());
    assert!(
        two.total
            .reason
            .is_some_and(|reason| reason.starts_with("2 of 4"))
    );
    close(two.dimensions[2].score.clone(), 92.0);
}

#[test]
fn a_finding_above_a_tenth_of_the_run_caps_the_total() {
    let mut session = session();
    let mut finding = Finding::new("late-rank", Severity::Critical, "rank 2 is late");
    finding.cost_ns = Figure::known(100 * MS);
    finding.cost_of_run = Figure::known(Ratio {
        numerator: 100 * MS,
        denominator: 1_000 * MS,
    });
    session.findings = vec![finding.clone()];
    let all = stated(&[], &["80us"]);
    // The condition is "above a tenth": exactly a tenth does not fulfil it.
    let card = scorecard(&session, &all);
    assert_eq!((card.capped_by, card.uncapped.value), (None, None));
    finding.cost_of_run.value.as_mut().expect("a share").numerator += 1;
    session.findings = vec![finding];
    let card = scorecard(&session, &all);
    close(card.total, 69.0);
    close(card.uncapped, (100.0 * 25.0 + 92.0 * 25.0 + 85.0 * 20.0) / 70.0);
    assert_eq!(card.capped_by.as_deref(), Some("late-rank"));
    assert_eq!(card.grade.as_deref(), Some("needs work"));
}

#[test]
fn failures_and_spread_take_points_and_nothing_goes_below_zero() {
    let mut session = session();
    session.totals.failed = 3;
    close(
        score(&scorecard(&session, &DeclaredLimits::default()), "stability"),
        55.0,
    );
    session.totals.failed = 9;
    close(
        score(&scorecard(&session, &DeclaredLimits::default()), "stability"),
        0.0,
    );
    session.totals.failed = 0;
    session.steps.duration_ns = Figure::known(quantiles(50e6, 100e6, 150e6, 200e6));
    close(
        score(&scorecard(&session, &DeclaredLimits::default()), "stability"),
        0.0,
    );
    session.steps.duration_ns = Figure::unknown("there are no steps");
    let card = scorecard(&session, &DeclaredLimits::default());
    assert_eq!(
        score(&card, "stability").reason.as_deref(),
        Some("there are no steps")
    );
    session.breakdown[1].operations_without_times = 5;
    assert!(
        score(&scorecard(&session, &DeclaredLimits::default()), "balance")
            .value
            .is_none()
    );
}

#[test]
fn peaks_and_limits_are_those_of_the_scope() {
    let mut session = session();
    // The scope of these classes is inside hosts: a peak across hosts does not apply to them.
    let card = scorecard(&session, &stated(&["across=12"], &["across=60us"]));
    assert!(score(&card, "bandwidth").value.is_none() && score(&card, "latency").value.is_none());
    close(
        score(
            &scorecard(&session, &stated(&["across=12", "inside=6"], &[])),
            "bandwidth",
        ),
        50.0,
    );
    // A transfer above the peak scores no more than 100.
    close(
        score(&scorecard(&session, &stated(&["2"], &[])), "bandwidth"),
        100.0,
    );
    // The lower score of two scopes counts.
    session.small_launches.push(SmallLaunches {
        scope: Scope::AcrossHosts,
        transfer_ns: quantiles(20e3, 30e3, 40e3, 160e3),
    });
    close(
        score(&scorecard(&session, &stated(&[], &["80us"])), "latency"),
        50.0,
    );
    close(
        score(
            &scorecard(&session, &stated(&[], &["80us", "across=160us"])),
            "latency",
        ),
        100.0,
    );
}

fn kinds(session: &Session) -> Vec<&str> {
    session
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect()
}

#[test]
fn low_use_of_a_declared_peak_is_a_finding_and_disappears_with_the_peak() {
    let mut session = session();
    // All-reduces of 4 MiB use a quarter of 12 GB/s.
    findings::state(&mut session, &stated(&["12"], &[]));
    assert_eq!(kinds(&session), ["low-bandwidth"]);
    let finding = &session.findings[0];
    assert!(finding.title.contains("25 %"), "{}", finding.title);
    // At 60 % of the peak they would take 25/60 of 1 s: 583 ms less. The 4 ranks cannot save more than their exposed
    // time.
    let exposed: i64 = session
        .breakdown
        .iter()
        .map(|entry| entry.exposed_communication_ns - entry.exposed_wait_ns)
        .sum();
    assert_eq!(finding.cost_ns.value, Some(583_333_333.min(exposed / 4)));
    // 3 of 5 GB/s is exactly enough.
    findings::state(&mut session, &stated(&["5"], &[]));
    assert_eq!(kinds(&session), Vec::<&str>::new());
    // Small operations are bound by latency.
    session.operations[0].size_from_bytes = Some(1 << 19);
    findings::state(&mut session, &stated(&["12"], &[]));
    assert_eq!(kinds(&session), Vec::<&str>::new());
}

#[test]
fn a_limit_passed_three_times_in_a_row_is_a_finding() {
    let mut session = session();
    // Broadcasts of 64 bytes: the slowest three in a row took at least 90 µs.
    assert_eq!(
        session.operations[2].longest_three_in_a_row_ns.value,
        Some(90_000)
    );
    findings::state(&mut session, &stated(&[], &["89us"]));
    assert_eq!(kinds(&session), ["slow-class"]);
    findings::state(&mut session, &stated(&[], &["90us"]));
    assert_eq!(kinds(&session), Vec::<&str>::new());
    findings::state(&mut session, &stated(&[], &["across=10us"]));
    assert_eq!(kinds(&session), Vec::<&str>::new());
}
