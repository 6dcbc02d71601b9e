//! Small tensors for each operation: ordinary ones, odd ones, empty ones, and some that do not fit.
//!
//! What must not live here: what operations do with them. The invariant: every operation that a
//! plug-in may have a kernel for has cases of the first three sorts, and they are the same each
//! time.

mod case;
mod draws;
mod elements;
mod graphs;
mod layout;
mod products;

use ng_infer::dfg::{Binary, Reduction, Unary};

pub(crate) use case::Case;

/// Whether plug-ins may have kernels of an operation: not where only a store answers, and not on
/// fixed-point numbers and steps of 8 bits.
pub(crate) fn is_offered(name: &str) -> bool {
    let of_steps = ["BatchPre", "FromFixed", "QuantisedLinear", "ToFixed"].contains(&name);
    !of_steps && !name.starts_with("Fixed")
}

/// The cases of an operation, by its name; `None` if there are none.
pub(crate) fn cases(name: &str) -> Option<Vec<Case>> {
    let named = |all: &'static [(Reduction, &'static str)], prefix: &str| {
        let rest = name.strip_prefix(prefix)?;
        all.iter().find(|(_, known)| *known == rest).map(|(how, _)| *how)
    };
    let binary = |name: &str| Binary::ALL.iter().find(|(_, n)| *n == name).map(|(op, _)| *op);
    if let Some((unary, _)) = Unary::ALL.iter().find(|(_, known)| *known == name) {
        return Some(elements::unary(*unary));
    }
    if let Some(binary) = binary(name) {
        return Some(elements::binary(binary));
    }
    if let Some(how) = named(Reduction::ALL, "Scatter") {
        return Some(graphs::scatter(how));
    }
    if let Some(how) = named(Reduction::ALL, "SpMM_") {
        return Some(graphs::spmm(how));
    }
    if let Some(how) = named(Reduction::ALL, "Aggregate") {
        return Some(graphs::aggregate(how));
    }
    if let Some(binary) = name.strip_prefix("SDDMM_").and_then(binary) {
        return Some(graphs::sddmm(binary));
    }
    let is_product = (name == "ReduceProd").then_some(Reduction::Mul);
    if let Some(how) = is_product.or_else(|| named(Reduction::ALL, "Reduce")) {
        return Some(products::reduce(how));
    }
    let of = [elements::alone, products::alone, layout::alone, graphs::alone];
    of.iter().find_map(|of| of(name))
}

#[cfg(test)]
mod tests {
    use super::case::{EMPTY, MISFIT, ODD, ORDINARY};
    use super::*;
    use ng_infer::dfg::{Constant, Op};
    use ng_infer::kernel::{Context, Kernel, Scalar, View, ViewMut};

    fn runs(case: &Case) -> Result<(), String> {
        let view = |tensor| View::new(Constant::dims(tensor), tensor.elements());
        let inputs: Vec<View<'_>> = case.inputs.iter().map(view).collect();
        let shapes = Scalar.shapes(&case.op, &inputs).map_err(|error| error.to_string())?;
        let mut memory: Vec<_> = shapes
            .iter()
            .map(|(dtype, dims)| super::draws::zeros(*dtype, dims.iter().product()))
            .collect();
        let pairs = shapes.iter().zip(&mut memory);
        let mut outputs: Vec<_> = pairs.map(|((_, dims), all)| ViewMut::new(dims, all)).collect();
        let ran = Scalar.run(&case.op, &inputs, &mut outputs, &Context::default());
        ran.map_err(|error| error.to_string())
    }

    #[test]
    fn every_operation_has_cases_of_each_sort_and_the_reference_device_does_them() {
        for name in Op::names().filter(|name| is_offered(name)) {
            let all = cases(&name).unwrap_or_else(|| panic!("{name} has no cases"));
            for what in [ORDINARY, ODD, EMPTY] {
                assert!(all.iter().any(|case| case.what == what), "{name}: {what}");
            }
            for case in &all {
                assert_eq!(case.op.name(), name);
                let ran = runs(case);
                assert_eq!(ran.is_err(), case.what == MISFIT, "{name}: {case:?}: {ran:?}");
            }
        }
        assert!(cases("BatchPre").is_none());
    }
}
