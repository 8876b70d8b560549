//! `#[guarded]`: the attribute through which every function that Python can call passes.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Block, FnArg, ImplItem, Item, LitStr, ReturnType, Signature, Type, parse_macro_input, parse_quote};

/// Guards a `#[pyfunction]`, or every method of the `#[pymethods]` block that follows.
///
/// - A panic becomes an ordinary Python exception (`crate::guard::call`) instead of `PyO3`'s `PanicException`.
/// - With a noun, `#[guarded("runner")]`, `&self` and `&mut self` are borrowed by `crate::guard` instead of `PyO3`: a call
///   while another thread is inside the object raises an error that names it. Frozen classes need no borrow and no noun.
///
/// Arguments are converted before the guard is entered, so types whose conversion can panic are refused: `Vec`, in place
/// of which there is `crate::sequence::Sequence`.
///
/// Methods of a class with a noun cannot call each other; shared code goes into a plain `impl` block.
#[proc_macro_attribute]
pub fn guarded(noun: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let noun = if noun.is_empty() { None } else { Some(parse_macro_input!(noun as LitStr)) };
    let mut item = parse_macro_input!(item as Item);
    match &mut item {
        Item::Fn(function) => {
            let name = function.sig.ident.to_string();
            guard(&name, noun.as_ref(), &mut function.sig, &mut function.block);
        }
        Item::Impl(methods) => {
            let class = methods.self_ty.to_token_stream().to_string();
            for item in &mut methods.items {
                if let ImplItem::Fn(method) = item {
                    let name = format!("{class}.{}", method.sig.ident);
                    guard(&name, noun.as_ref(), &mut method.sig, &mut method.block);
                }
            }
        }
        other => {
            return syn::Error::new_spanned(other, "expected a function or an impl block").to_compile_error().into();
        }
    }
    item.into_token_stream().into()
}

/// An error for each argument of type `Vec`, also inside another type.
fn check_arguments(signature: &Signature) -> TokenStream {
    let is_vec = |argument: &&FnArg| {
        let FnArg::Typed(argument) = argument else { return false };
        argument.ty.to_token_stream().into_iter().any(|token| matches!(token, TokenTree::Ident(name) if name == "Vec"))
    };
    let refuse = |argument| {
        syn::Error::new_spanned(argument, "the conversion of a `Vec` can panic: use `Sequence`").to_compile_error()
    };
    signature.inputs.iter().filter(is_vec).map(refuse).collect()
}

fn guard(name: &str, noun: Option<&LitStr>, signature: &mut Signature, block: &mut Block) {
    let errors = check_arguments(signature);
    let mut body = block.to_token_stream();
    if !make_fallible(&mut signature.output) {
        body = quote!(Ok(#body));
    }
    let mut borrow = TokenStream::new();
    if let (Some(noun), Some(FnArg::Receiver(receiver))) = (noun, signature.inputs.first()) {
        body = without_self(body);
        borrow = if receiver.to_token_stream().to_string().contains("mut") {
            quote!(let mut borrowed = crate::guard::exclusive(slf, #noun)?; let this = &mut *borrowed;)
        } else {
            quote!(let borrowed = crate::guard::shared(slf, #noun)?; let this = &*borrowed;)
        };
        signature.inputs[0] = parse_quote!(slf: &pyo3::Bound<'_, Self>);
    }
    let output = &signature.output;
    *block = parse_quote!({
        #errors
        crate::guard::call(#name, || #output {
            #borrow
            #body
        })
    });
}

/// Makes the function return `PyResult`; returns whether it did before.
fn make_fallible(output: &mut ReturnType) -> bool {
    let value: Type = match output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, value) => (**value).clone(),
    };
    if let Type::Path(path) = &value
        && path.path.segments.last().is_some_and(|segment| segment.ident == "PyResult")
    {
        return true;
    }
    *output = parse_quote!(-> pyo3::PyResult<#value>);
    false
}

/// The same tokens with `this` for `self`, which a function without a receiver cannot name.
fn without_self(tokens: TokenStream) -> TokenStream {
    let rename = |token| match token {
        TokenTree::Ident(word) if word == "self" => TokenTree::Ident(Ident::new("this", word.span())),
        TokenTree::Group(group) => {
            let mut renamed = Group::new(group.delimiter(), without_self(group.stream()));
            renamed.set_span(group.span());
            TokenTree::Group(renamed)
        }
        other => other,
    };
    tokens.into_iter().map(rename).collect()
}
