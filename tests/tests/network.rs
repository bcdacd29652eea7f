//! Tests that the router between the hosts of a test applies the configured delay, separately for each direction.

use rankscope_tests::network::{Link, Network};
use rankscope_tests::turn;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PORT: u16 = 7000;

fn link(least_us: u64, jitter_us: u64) -> Link {
    Link {
        least_delay: Duration::from_micros(least_us),
        mean_jitter: Duration::from_micros(jitter_us),
        bytes_per_second: None,
    }
}

fn socket(network: &Network, host: usize) -> UdpSocket {
    let address = SocketAddr::from((Network::address(host), PORT));
    let socket = network.on(host, || UdpSocket::bind(address)).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time limit");
    socket
}

/// Returns the sorted one-way delays of packets that are sent one by one. All timestamps are from one clock.
fn delays(network: &Network, from: usize, to: usize, count: u32) -> Vec<Duration> {
    let (sender, receiver) = (socket(network, from), socket(network, to));
    let start = Instant::now();
    let address = SocketAddr::from((Network::address(to), PORT));
    let received = std::thread::spawn(move || {
        let mut all = Vec::new();
        for expected in 0..count {
            let mut packet = [0; 16];
            let (bytes, _) = receiver.recv_from(&mut packet).expect("a packet");
            let arrived = start.elapsed();
            assert_eq!(bytes, 16);
            let number = |at: usize| {
                let bytes: [u8; 8] = packet[at..at + 8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            };
            assert_eq!(number(8), u64::from(expected), "in order");
            all.push(arrived - Duration::from_nanos(number(0)));
        }
        all.sort_unstable();
        all
    });
    for number in 0..count {
        let mut packet = [0; 16];
        packet[..8].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_le_bytes());
        packet[8..].copy_from_slice(&u64::from(number).to_le_bytes());
        sender.send_to(&packet, address).expect("sent");
        std::thread::sleep(Duration::from_micros(1000));
    }
    received.join().expect("received")
}

#[test]
fn each_direction_has_the_requested_delay() {
    let turn = turn::take();
    // From host 0 to host 1: 1 ms and 300 µs of jitter. Back: 200 µs. Host 2 is idle.
    let Some(network) = Network::new(3, 5, |from, to| match (from, to) {
        (0, 1) => link(1000, 300),
        (1, 0) => link(200, 0),
        _ => link(3000, 0),
    }) else {
        return;
    };
    for (from, to, least_us, mean_jitter_us) in [(0, 1, 1000, 300), (1, 0, 200, 0), (2, 0, 3000, 0)] {
        let all = delays(&network, from, to, 400);
        let us = |duration: Duration| duration.as_micros() as u64;
        let (first, middle) = (us(all[0]), us(all[all.len() / 2]));
        println!(
            "{from} → {to}: asked for {least_us} + {mean_jitter_us} µs, least {first}, median {middle}, 95th {}",
            us(all[all.len() * 95 / 100])
        );
        // No packet is faster, and the fastest of hundreds is not delayed by the machine.
        assert!((least_us..least_us + 150).contains(&first), "{first}");
        // The median of an exponential distribution is ln 2 of its mean. A busy machine adds to it.
        let expected_us = least_us + mean_jitter_us * 69 / 100;
        assert!(
            middle + mean_jitter_us / 5 >= expected_us && middle < expected_us + 500,
            "{middle} {expected_us}"
        );
    }
    assert_eq!(network.counts().dropped.load(Ordering::Relaxed), 0);
    drop(turn);
}

#[test]
fn a_link_has_the_requested_speed() {
    let turn = turn::take();
    let rate = |from: usize| if from == 0 { 20_000_000 } else { 100_000_000 };
    let Some(network) = Network::new(2, 5, |from, _| Link {
        bytes_per_second: Some(rate(from)),
        ..link(100, 0)
    }) else {
        return;
    };
    for (from, to) in [(0, 1), (1, 0)] {
        let address = SocketAddr::from((Network::address(to), PORT + 1));
        let listener = network
            .on(to, || std::net::TcpListener::bind(address))
            .expect("listens");
        const BYTES: usize = 8 << 20;
        let received = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            std::io::copy(&mut stream, &mut std::io::sink()).expect("read")
        });
        let mut stream = network
            .on(from, || TcpStream::connect(address))
            .expect("connected");
        let start = Instant::now();
        std::io::Write::write_all(&mut stream, &vec![1; BYTES]).expect("written");
        drop(stream);
        assert_eq!(received.join().expect("received"), BYTES as u64);
        let got = BYTES as f64 / start.elapsed().as_secs_f64();
        println!(
            "{from} → {to}: {:.1} MB/s of {:.1}",
            got / 1e6,
            rate(from) as f64 / 1e6
        );
        // Headers take some time, and no packet exceeds the rate.
        assert!(
            got < rate(from) as f64 * 1.01 && got > rate(from) as f64 * 0.6,
            "{got}"
        );
    }
    drop(turn);
}
