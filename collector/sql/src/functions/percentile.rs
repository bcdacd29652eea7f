//! Percentiles by the sketch of the report.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use rankscope_analysis::model::quantiles::Sketch;
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
        let share = arguments
            .exprs
            .get(1)
            .and_then(|share| share.downcast_ref::<Literal>());
        match share.map(|share| share.value()) {
            Some(&ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(&share) => {
                Ok(Box::new(Summary {
                    sketch: Sketch::default(),
                    share,
                }))
            }
            _ => plan_err!("percentile(value, share): the share is a number from 0 to 1, such as 0.99"),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = format!("{}[sketch]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }
}

#[derive(Debug)]
struct Summary {
    sketch: Sketch,
    share: f64,
}

impl Accumulator for Summary {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let values = arguments[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.sketch.add(value));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = (self.sketch.count() > 0).then(|| self.sketch.quantile(self.share));
        Ok(ScalarValue::Float64(value))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sketch.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.sketch.to_bytes()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            match Sketch::from_bytes(state) {
                Some(sketch) => self.sketch.merge(&sketch),
                None => return exec_err!("an intermediate result of percentile() is damaged"),
            }
        }
        Ok(())
    }
}
