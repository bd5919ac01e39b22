import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MCP_LIMITS } from '../src/config.ts'
import { serverIn, toolsOf } from '../src/tool.ts'

const tool = (name: string, more: object = {}) => ({ name, inputSchema: { type: 'object' as const }, ...more })

test('names are what providers accept, and two tools never share one', () => {
  const { tools } = toolsOf('s', [tool('a b'), tool('a/b'), tool('x'.repeat(300)), tool('plain')], {})
  const names = tools.map(({ name }) => name)
  for (const name of names) assert.match(name, /^mcp__s__[\w-]{1,56}$/)
  assert.equal(new Set(names).size, 4)
  assert.deepEqual([names[3], serverIn('mcp__my_files__read')], ['mcp__s__plain', 'my_files'])
})

test('too many, too large and doubled tools are refused with a reason, and the rest is offered', () => {
  const many = Array.from({ length: MCP_LIMITS.toolsMax + 5 }, (_, index) => tool(`t${index}`))
  const large = tool('large', { inputSchema: { type: 'object' as const, title: 'x'.repeat(MCP_LIMITS.toolBytesMax) } })
  const { tools, refused } = toolsOf('s', [large, tool('t1'), ...many], {})
  assert.equal(tools.length, MCP_LIMITS.toolsMax)
  assert.deepEqual(
    refused.slice(0, 2).map(({ tool: name }) => name),
    ['large', 't1'],
  )
  assert.match(refused.at(-1)?.because ?? '', /may offer 4096 tools/)
})

test('hints count only for tools that the configuration trusts, and only if they do not contradict each other', () => {
  const hinted = [
    tool('look', { annotations: { readOnlyHint: true } }),
    tool('put', { annotations: { idempotentHint: true } }),
    tool('plain'),
    tool('torn', { annotations: { readOnlyHint: true, destructiveHint: true, idempotentHint: true } }),
    tool('once', { annotations: { readOnlyHint: true, idempotentHint: false } }),
  ]
  const flags = (trust: boolean | string[]) =>
    toolsOf('s', hinted, { trust }).tools.map(({ mayRepeat, isSafe }) => [mayRepeat, isSafe])
  const none = [false, false]
  assert.deepEqual(flags(false), [none, none, none, none, none])
  assert.deepEqual(flags(true), [[true, true], [true, false], none, none, [false, true]])
  assert.deepEqual(flags(['put', 'plain']), [none, [true, false], none, none, none])
})

test('the order of keys does not change a definition, a new field does', () => {
  const hash = (properties: object): string | undefined =>
    toolsOf('s', [tool('t', { inputSchema: { type: 'object' as const, properties } })], {}).tools[0]?.hash
  assert.equal(hash({ a: {}, b: {} }), hash({ b: {}, a: {} }))
  assert.notEqual(hash({ a: {} }), hash({ a: {}, b: {} }))
})

test('only the tools that the configuration names are offered', () => {
  const { tools } = toolsOf('s', [tool('a'), tool('b')], { tools: ['b'] })
  assert.deepEqual(
    tools.map((entry) => entry.tool),
    ['b'],
  )
})
