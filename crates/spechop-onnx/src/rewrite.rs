//! The graph of a model, with integer products in the place of large ones.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem::take;

use prost::Message;

use crate::QuantiseError;
use crate::proto::{FLOAT, Graph, INT8, Model, Named, Node, Tensor};
use crate::weights::{self, Int8};

/// The first operator set with `DynamicQuantizeLinear`.
const OPSET: i64 = 11;

/// Rewrites a model. Returns the number of matrices that are in eight bits now, and of the numbers in
/// them.
pub(crate) fn model(model: &mut Model) -> Result<(usize, usize), QuantiseError> {
    let standard = model.opset_import.iter().find(|set| {
        let domain = set.domain.as_deref().unwrap_or_default();
        matches!(domain, "" | "ai.onnx")
    });
    let found = standard.and_then(|set| set.version).unwrap_or(0);
    let graph = model.graph.as_mut().ok_or(QuantiseError::NoGraph)?;
    if found < OPSET {
        return Err(QuantiseError::OldOpset {
            found,
            needed: OPSET,
        });
    }
    plain(graph)?;
    let products = products(graph)?;
    if products.is_empty() {
        return Err(QuantiseError::NothingToDo);
    }
    rewrite(graph, &products)
}

/// Refuses graphs within the graph: they may use weights by their names, and are not looked into.
fn plain(graph: &Graph) -> Result<(), QuantiseError> {
    for node in &graph.node {
        let attributes = node.attributes()?;
        if attributes
            .iter()
            .any(|a| a.g.is_some() || !a.graphs.is_empty())
        {
            let node = node.name.clone().or_else(|| node.op_type.clone());
            return Err(QuantiseError::Subgraph {
                node: node.unwrap_or_default(),
            });
        }
    }
    Ok(())
}

/// A product of something by a large constant matrix.
#[derive(Clone, PartialEq, Eq)]
struct Product {
    /// Which initializer is the matrix.
    weight: usize,
    /// Its sides, as they stand in the file.
    sides: (usize, usize),
    /// Whether it is turned before it is used.
    transposed: bool,
}

/// The products of a graph, by the places of their nodes.
fn products(graph: &Graph) -> Result<BTreeMap<usize, Product>, QuantiseError> {
    let large: HashMap<&str, (usize, (usize, usize))> = graph
        .initializer
        .iter()
        .enumerate()
        .filter_map(|(at, tensor)| Some((tensor.name(), (at, weights::large(tensor)?))))
        .collect();
    let mut found = BTreeMap::new();
    for (at, node) in graph.node.iter().enumerate() {
        let transposed = if node.is("MatMul") && node.input.len() == 2 {
            Some(false)
        } else if node.is("Gemm") {
            plain_gemm(node)?
        } else {
            None
        };
        let weight = node.input.get(1).and_then(|name| large.get(name.as_str()));
        if let (Some(transposed), Some(&(weight, sides)), 1) =
            (transposed, weight, node.output.len())
        {
            let product = Product {
                weight,
                sides,
                transposed,
            };
            found.insert(at, product);
        }
    }
    Ok(found)
}

/// Whether the matrix of a `Gemm` is turned. `None` if the operator does more than `x · w + b`.
fn plain_gemm(node: &Node) -> Result<Option<bool>, QuantiseError> {
    let mut transposed = false;
    for attribute in node.attributes()? {
        let (i, f) = (attribute.i.unwrap_or(0), attribute.f.unwrap_or(0.0));
        match attribute.name.as_deref() {
            Some("transB") => transposed = i != 0,
            Some("transA") if i == 0 => {}
            Some("alpha" | "beta") if f == 1.0 => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(transposed))
}

/// What a matrix is called in eight bits: with its scales, and its noughts.
struct Names {
    values: String,
    scales: String,
    noughts: String,
}

impl Names {
    fn of(weight: &str, transposed: bool) -> Self {
        let turned = if transposed { "_turned" } else { "" };
        let name = |what: &str| format!("{weight}{turned}_int8_{what}");
        Self {
            values: name("values"),
            scales: name("scales"),
            noughts: name("noughts"),
        }
    }
}

fn rewrite(
    graph: &mut Graph,
    products: &BTreeMap<usize, Product>,
) -> Result<(usize, usize), QuantiseError> {
    let mut new = Vec::new();
    let mut parameters = 0;
    let mut matrices: BTreeSet<(usize, bool)> = BTreeSet::new();
    for product in products.values() {
        if matrices.insert((product.weight, product.transposed)) {
            let tensor = &graph.initializer[product.weight];
            let matrix = weights::quantise(tensor, product.sides, product.transposed)?;
            parameters += matrix.values.len();
            let names = Names::of(tensor.name(), product.transposed);
            new.extend(tensors(&names, matrix));
        }
    }
    let mut nodes = Vec::with_capacity(graph.node.len() + 4 * products.len());
    // Products of the same input share its quantisation.
    let mut quantised = HashSet::new();
    for (at, node) in take(&mut graph.node).into_iter().enumerate() {
        match products.get(&at) {
            Some(product) => {
                let names = Names::of(graph.initializer[product.weight].name(), product.transposed);
                integer_product(&node, &names, &mut quantised, &mut nodes);
            }
            None => nodes.push(node),
        }
    }
    graph.node = nodes;
    drop_unused(graph, products)?;
    graph.initializer.extend(new);
    Ok((matrices.len(), parameters))
}

fn tensors(names: &Names, matrix: Int8) -> [Tensor; 3] {
    let Int8 {
        rows,
        columns,
        values,
        scales,
    } = matrix;
    let values = values.into_iter().map(|x| x.to_ne_bytes()[0]).collect();
    let scales = scales.iter().flat_map(|x| x.to_le_bytes()).collect();
    [
        Tensor::new(&names.values, INT8, &[rows, columns], values),
        Tensor::new(&names.scales, FLOAT, &[columns], scales),
        Tensor::new(&names.noughts, INT8, &[columns], vec![0; columns]),
    ]
}

/// The nodes that compute with integers what `node` computed.
fn integer_product(
    node: &Node,
    names: &Names,
    quantised: &mut HashSet<String>,
    nodes: &mut Vec<Node>,
) {
    // They were looked at before: two inputs at least, and one output.
    let (x, y) = (node.input[0].clone(), node.output[0].clone());
    let of_x = |what: &str| format!("{x}_int8_{what}");
    let (x_values, x_scale, x_nought) = (of_x("values"), of_x("scale"), of_x("nought"));
    if quantised.insert(x.clone()) {
        let outputs = [x_values.as_str(), &x_scale, &x_nought];
        nodes.push(Node::new("DynamicQuantizeLinear", &[&x], &outputs));
    }
    let of_y = |what: &str| format!("{y}_int8_{what}");
    let (sums, numbers, scales) = (of_y("sums"), of_y("numbers"), of_y("scales"));
    let inputs = [x_values.as_str(), &names.values, &x_nought, &names.noughts];
    let bias = node.input.get(2).filter(|bias| !bias.is_empty());
    let product = if bias.is_some() {
        of_y("product")
    } else {
        y.clone()
    };
    nodes.extend([
        Node::new("MatMulInteger", &inputs, &[&sums]),
        Node::new("Cast", &[&sums], &[&numbers]).with("to", i64::from(FLOAT)),
        Node::new("Mul", &[&x_scale, &names.scales], &[&scales]),
        Node::new("Mul", &[&numbers, &scales], &[&product]),
    ]);
    nodes.extend(bias.map(|bias| Node::new("Add", &[&product, bias], &[&y])));
}

/// Takes out the matrices that no node uses any more. Old files name them among the inputs, too.
fn drop_unused(
    graph: &mut Graph,
    products: &BTreeMap<usize, Product>,
) -> Result<(), QuantiseError> {
    let weights: HashSet<usize> = products.values().map(|product| product.weight).collect();
    let used: HashSet<&str> = graph
        .node
        .iter()
        .flat_map(|node| node.input.iter().map(String::as_str))
        .collect();
    let unused: HashSet<String> = weights
        .into_iter()
        .map(|at| graph.initializer[at].name())
        .filter(|name| !used.contains(name))
        .map(str::to_owned)
        .collect();
    graph
        .initializer
        .retain(|tensor| !unused.contains(tensor.name()));
    let mut inputs = Vec::with_capacity(graph.input.len());
    for input in take(&mut graph.input) {
        let name = Named::decode(input.as_slice())?.name;
        if !name.is_some_and(|name| unused.contains(&name)) {
            inputs.push(input);
        }
    }
    graph.input = inputs;
    Ok(())
}
