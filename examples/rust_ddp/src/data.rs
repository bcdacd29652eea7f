//! Synthetic data: points, and whether they are inside a circle.

/// Samples of one step.
pub struct Batch {
    /// Two coordinates per sample.
    pub points: Vec<[f32; 2]>,
    /// 1 inside the circle, else 0.
    pub labels: Vec<f32>,
}

/// The data of one rank.
pub struct Batches {
    state: u64,
}

impl Batches {
    /// Returns the data of a rank. Each rank has other samples.
    pub fn of_rank(rank: u32) -> Self {
        Self {
            state: u64::from(rank) + 1,
        }
    }

    /// Returns the next samples.
    pub fn next(&mut self, samples: usize) -> Batch {
        let points: Vec<[f32; 2]> = (0..samples)
            .map(|_| [self.coordinate(), self.coordinate()])
            .collect();
        let labels = points
            .iter()
            .map(|[x, y]| f32::from(x * x + y * y < 0.5))
            .collect();
        Batch { points, labels }
    }

    /// Returns a number from −1 to 1: an xorshift generator (Marsaglia, 2003).
    fn coordinate(&mut self) -> f32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
