//! Tests faults of one host or one link on hosts with different clocks.
//!
//! The right rule reports the fault and names the affected host or ranks, and is silent without a fault.

use std::time::Duration;

use rankscope_analysis::findings::catalogue;
use rankscope_formats::session::{Finding, Session};
use rankscope_tests::job::Job;
use rankscope_tests::network::Link;
use rankscope_tests::{compile, turn};

use crate::merged;
use crate::random::Random;
use crate::recording::{any_clocks, record, uneven_links};

/// Records a job and merges it under different clocks of its hosts.
fn session(seed: u64, links: &[Vec<Link>], hosts: &[usize], set: impl FnOnce(Job) -> Job) -> Option<Session> {
    let program = compile::gloo("gloo_steps.cc")?;
    let turn = turn::take();
    let job = Job::program(&program, hosts.len())
        .arg("160")
        .env("COMPUTE_US", "15000");
    let recording = record(&turn, seed, links, hosts, set(job))?;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let clocks = any_clocks(links.len(), &mut Random::new(seed));
    recording.under_clocks(folder.path(), &clocks, None, |_, _| {});
    Some(merged(folder.path()))
}

fn of_kind<'s>(session: &'s Session, kind: &str) -> Vec<&'s Finding> {
    assert!(
        catalogue::RULES.iter().any(|rule| rule.id == kind),
        "{kind} is no rule"
    );
    for finding in &session.findings {
        println!("  {}: {}", finding.kind, finding.title);
    }
    session
        .findings
        .iter()
        .filter(|finding| finding.kind == kind)
        .collect()
}

#[test]
fn a_slow_link_is_named_and_none_if_all_are_alike() {
    let hosts = [0, 1, 2, 3];
    for slow in [false, true] {
        let mut links = uneven_links(hosts.len(), &mut Random::new(77));
        if slow {
            for (from, to) in [(1, 2), (2, 1)] {
                links[from][to].bytes_per_second = Some(8_000_000);
                links[from][to].least_delay += Duration::from_millis(1);
            }
        }
        let Some(session) = session(77, &links, &hosts, |job| job.env("PAIRS", "1")) else {
            return;
        };
        println!("a slow link: {slow}");
        let found = of_kind(&session, "slow-link");
        let ranks: Vec<&[u32]> = found.iter().map(|finding| &finding.ranks[..]).collect();
        if slow {
            assert_eq!(ranks, [[1, 2]]);
        } else {
            assert!(ranks.is_empty(), "{ranks:?}");
        }
    }
}

#[test]
fn a_slow_host_is_named_and_none_if_all_are_alike() {
    let hosts = [0, 0, 1, 1, 2, 2];
    for slow in [false, true] {
        let links = uneven_links(3, &mut Random::new(78));
        let Some(session) = session(78, &links, &hosts, |job| {
            if slow {
                job.env("LATE", "2:6000,3:6000")
            } else {
                job
            }
        }) else {
            return;
        };
        println!("a slow host: {slow}");
        let found = of_kind(&session, "slow-host");
        let named: Vec<&str> = found
            .iter()
            .flat_map(|finding| &finding.hosts)
            .map(|&host| session.hosts[host as usize].name.as_str())
            .collect();
        if slow {
            assert_eq!(named, ["host-1"]);
        } else {
            assert!(named.is_empty(), "{named:?}");
        }
    }
}
