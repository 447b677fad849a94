// The little of Node that the tests use.
declare module "node:test" {
  export function test(name: string, body: () => void | Promise<void>): void;
  export default test;
}
declare module "node:assert/strict" {
  const assert: {
    equal(found: unknown, expected: unknown, message?: string): void;
    deepEqual(found: unknown, expected: unknown, message?: string): void;
    ok(found: unknown, message?: string): void;
    match(found: string, expected: RegExp, message?: string): void;
    throws(body: () => unknown, expected?: RegExp): void;
    rejects(body: Promise<unknown>, expected?: RegExp): Promise<void>;
  };
  export default assert;
}
