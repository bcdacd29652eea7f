//! Percentiles by the sketch of the report.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use rankscope_analysis::model::quantiles::{self, Sketch};
use std::sync::Arc;

pub fn percentile() -> AggregateUDF {
    AggregateUDF::from(Percentile {
        signature: Signature::exact(vec![DataType::Float64, DataType::Float64], Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    signature: Signature,
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        "percentile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return plan_err!(
                "percentile(distinct …) does not exist: select distinct values in a query inside"
            );
        }
        let share = arguments
            .exprs
            .get(1)
            .and_then(|share| share.downcast_ref::<Literal>());
        match share.map(|share| share.value()) {
            Some(&ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(&share) => {
                Ok(Box::new(Summary {
                    negative: Sketch::default(),
                    positive: Sketch::default(),
                    share,
                }))
            }
            _ => plan_err!("percentile(value, share): the share is a number from 0 to 1, such as 0.99"),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str| {
            Arc::new(Field::new(
                format!("{}[{part}]", arguments.name),
                DataType::Binary,
                true,
            ))
        };
        Ok(vec![field("negative"), field("positive")])
    }
}

/// Values of a group. The sketch of the report is for values from 0 on, so negative ones have a sketch of their magnitudes.
#[derive(Debug)]
struct Summary {
    negative: Sketch,
    positive: Sketch,
    share: f64,
}

impl Summary {
    fn percentile(&self) -> Option<f64> {
        let (negative, all) = (
            self.negative.count(),
            self.negative.count() + self.positive.count(),
        );
        let position = quantiles::position(self.share, all);
        match position <= negative {
            _ if all == 0 => None,
            // The smallest value has the largest magnitude.
            true => Some(-self.negative.at(negative + 1 - position)),
            false => Some(self.positive.at(position - negative)),
        }
    }
}

impl Accumulator for Summary {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        // What is no number has no place in an order.
        let values = arguments[0].as_primitive::<Float64Type>().iter().flatten();
        for value in values.filter(|value| !value.is_nan()) {
            match value < 0.0 {
                true => self.negative.add(-value),
                false => self.positive.add(value),
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.percentile()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.negative.bytes() + self.positive.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = |sketch: &Sketch| ScalarValue::Binary(Some(sketch.to_bytes()));
        Ok(vec![state(&self.negative), state(&self.positive)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (sketch, states) in [&mut self.negative, &mut self.positive].into_iter().zip(states) {
            for state in states.as_binary::<i32>().iter().flatten() {
                match Sketch::from_bytes(state) {
                    Some(other) => sketch.merge(&other),
                    None => return exec_err!("an intermediate result of percentile() is damaged"),
                }
            }
        }
        Ok(())
    }
}
