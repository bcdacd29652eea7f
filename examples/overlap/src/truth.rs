//! Where the device's time went, from when its kernels began and ended.

/// Times of one kernel by the device's timer.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// It counts as communication.
    pub is_communication: bool,
    /// Begin, ns.
    pub start: u64,
    /// End, ns.
    pub end: u64,
}

/// The parts of the window from the first kernel's begin to the last one's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// The window, ns.
    pub window_ns: u64,
    /// Compute without communication, ns.
    pub compute_only_ns: u64,
    /// Both, ns.
    pub overlapped_ns: u64,
    /// Communication without compute, ns.
    pub exposed_communication_ns: u64,
    /// Neither, ns.
    pub idle_ns: u64,
    /// Kernels of compute.
    pub compute_kernels: usize,
    /// Kernels of communication.
    pub communication_kernels: usize,
}

impl Truth {
    /// What these kernels did.
    ///
    /// # Errors
    /// If one of them did not run.
    pub fn of(stamps: &[Stamp]) -> Result<Self, String> {
        if let Some(place) = stamps
            .iter()
            .position(|stamp| stamp.start == 0 || stamp.end < stamp.start)
        {
            return Err(format!(
                "kernel {place} of {} did not run: {:?}",
                stamps.len(),
                stamps[place]
            ));
        }
        let of_class = |is_communication| {
            let chosen = stamps
                .iter()
                .filter(move |stamp| stamp.is_communication == is_communication);
            chosen.map(|stamp| (stamp.start, stamp.end)).collect::<Vec<_>>()
        };
        let (compute, communication) = (of_class(false), of_class(true));
        let (compute_ns, communication_ns) = (union(compute.clone()), union(communication.clone()));
        let both_ns = union(compute.iter().chain(&communication).copied().collect());
        let first = stamps.iter().map(|stamp| stamp.start).min().ok_or("no kernel")?;
        let last = stamps.iter().map(|stamp| stamp.end).max().ok_or("no kernel")?;
        Ok(Self {
            window_ns: last - first,
            compute_only_ns: both_ns - communication_ns,
            overlapped_ns: compute_ns + communication_ns - both_ns,
            exposed_communication_ns: both_ns - compute_ns,
            idle_ns: last - first - both_ns,
            compute_kernels: compute.len(),
            communication_kernels: communication.len(),
        })
    }

    /// The same with so many rounds of so many kernels of compute and one of communication.
    pub fn with_kernels(self, rounds: usize, compute: usize) -> Self {
        Self {
            compute_kernels: rounds * compute,
            communication_kernels: rounds,
            ..self
        }
    }

    /// As a JSON object.
    pub fn to_json(self) -> String {
        format!(
            "{{\"window_ns\":{},\"compute_only_ns\":{},\"overlapped_ns\":{},\"exposed_communication_ns\":{},\
             \"idle_ns\":{},\"compute_kernels\":{},\"communication_kernels\":{}}}",
            self.window_ns,
            self.compute_only_ns,
            self.overlapped_ns,
            self.exposed_communication_ns,
            self.idle_ns,
            self.compute_kernels,
            self.communication_kernels
        )
    }
}

/// Length of a union.
fn union(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut length, mut until) = (0, 0);
    for (start, end) in intervals {
        length += end.max(until) - start.max(until);
        until = until.max(end);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_window() {
        let stamp = |is_communication, start, end| Stamp {
            is_communication,
            start,
            end,
        };
        let stamps = [
            stamp(false, 10, 20),
            stamp(false, 20, 25),
            stamp(true, 18, 30),
            stamp(false, 40, 41),
        ];
        let truth = Truth::of(&stamps).expect("all ran");
        let expected = Truth {
            window_ns: 31,
            compute_only_ns: 9,
            overlapped_ns: 7,
            exposed_communication_ns: 5,
            idle_ns: 10,
            compute_kernels: 3,
            communication_kernels: 1,
        };
        assert_eq!(truth, expected);
        assert!(Truth::of(&[stamp(false, 0, 0)]).is_err());
    }
}
