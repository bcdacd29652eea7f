//! A network with one hidden layer: points in, the probability of a label out.

use crate::data::Batch;

/// Number of hidden units.
const HIDDEN: usize = 64;
/// Weights and bias of a hidden unit, and its weight in the output.
const PER_UNIT: usize = 4;
/// Learning rate.
const RATE: f32 = 0.5;

/// The weights: those of the hidden units, then the bias of the output.
pub struct Model {
    weights: Vec<f32>,
}

/// Results of a forward pass.
pub struct Outputs {
    hidden: Vec<[f32; HIDDEN]>,
    probabilities: Vec<f32>,
}

/// Gradients of the weights, and the loss as the last value. One all-reduce averages both.
pub struct Gradients {
    /// The values.
    pub values: Vec<f32>,
}

impl Gradients {
    /// Returns the mean loss of all ranks, after the all-reduce.
    pub fn loss(&self, ranks: u32, samples: usize) -> f32 {
        self.values
            .last()
            .map_or(0.0, |sum| sum / (ranks as usize * samples) as f32)
    }
}

impl Model {
    /// Returns the same weights on each rank.
    pub fn new() -> Self {
        let weights = (0..HIDDEN * PER_UNIT + 1).map(|at| ((at * 37 % 64) as f32 / 32.0 - 1.0) * 0.7);
        Self {
            weights: weights.collect(),
        }
    }

    fn units(&self) -> impl Iterator<Item = &[f32; PER_UNIT]> {
        self.weights.as_chunks().0.iter()
    }

    /// Returns the probabilities of the labels.
    pub fn forward(&self, batch: &Batch) -> Outputs {
        let bias = self.weights[HIDDEN * PER_UNIT];
        let mut outputs = Outputs {
            hidden: Vec::with_capacity(batch.points.len()),
            probabilities: Vec::with_capacity(batch.points.len()),
        };
        for [x, y] in &batch.points {
            let mut hidden = [0.0; HIDDEN];
            let mut sum = bias;
            for (value, [of_x, of_y, own_bias, out]) in hidden.iter_mut().zip(self.units()) {
                *value = (of_x * x + of_y * y + own_bias).tanh();
                sum += out * *value;
            }
            outputs.hidden.push(hidden);
            outputs.probabilities.push(1.0 / (1.0 + (-sum).exp()));
        }
        outputs
    }

    /// Returns the sums of the gradients and of the loss (cross entropy) over the samples.
    pub fn backward(&self, batch: &Batch, outputs: &Outputs) -> Gradients {
        let mut values = vec![0.0; self.weights.len() + 1];
        let samples = batch.points.iter().zip(&batch.labels);
        for ((point, label), (hidden, probability)) in
            samples.zip(outputs.hidden.iter().zip(&outputs.probabilities))
        {
            let error = probability - label;
            let units = self.units().zip(hidden).zip(values.as_chunks_mut::<PER_UNIT>().0);
            for (([.., out], value), gradients) in units {
                let inner = error * out * (1.0 - value * value);
                gradients[0] += inner * point[0];
                gradients[1] += inner * point[1];
                gradients[2] += inner;
                gradients[3] += error * value;
            }
            values[HIDDEN * PER_UNIT] += error;
            let hit = if *label > 0.5 {
                *probability
            } else {
                1.0 - probability
            };
            values[HIDDEN * PER_UNIT + 1] -= hit.max(1e-7).ln();
        }
        // The gradients are means, the loss is a sum.
        let samples = batch.points.len() as f32;
        for gradient in &mut values[..=HIDDEN * PER_UNIT] {
            *gradient /= samples;
        }
        Gradients { values }
    }

    /// Moves the weights against the mean of the gradients of all ranks.
    pub fn update(&mut self, gradients: &Gradients, ranks: u32) {
        for (weight, gradient) in self.weights.iter_mut().zip(&gradients.values) {
            *weight -= RATE * gradient / ranks as f32;
        }
    }
}
