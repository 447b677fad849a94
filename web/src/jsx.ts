// What JSX becomes in the bundle: shorter calls than those of the automatic runtime.
export { h as jsxElement, Fragment as jsxFragment } from "preact";
