/** The names of tests as written in test files. A name with `${…}` keeps that text. */

/** Where tests are. */
export const TESTS: readonly string[] = [
  'packages/*/test/**/*.test.ts',
  'packages/*/test/conformance/*.ts',
  'e2e/**/*.test.ts',
  'sim/**/*.test.ts',
  'test/*.test.ts',
]

export function testNamesIn(text: string): readonly string[] {
  const call =
    /\b(?:test|it|browserTest|scenario)(?:\.skip)?\(\s*(?:'((?:[^'\\\n]|\\.)+)'|"((?:[^"\\\n]|\\.)+)"|`((?:[^`\\]|\\.)+)`)/g
  return Array.from(text.matchAll(call), ([, single, double, template]) =>
    unescaped(single ?? double ?? template ?? ''),
  )
}

const unescaped = (name: string): string => name.replace(/\\(['"`])/g, '$1')
