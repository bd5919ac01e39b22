/** The gate that lets only the new part of a repeated answer through. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { KnownText } from '../src/machine/known-text.ts'
import { PrefixGate, type Segment } from '../src/machine/prefix-gate.ts'

const kind = fc.constantFrom('text' as const, 'reasoning' as const)
const deltas = fc.array(fc.record({ kind, text: fc.string({ minLength: 1, maxLength: 6 }) }), { maxLength: 12 })

const add = (list: readonly Segment[], { kind: of, text }: Segment): Segment[] => {
  const last = list.at(-1)
  return last?.kind === of ? list.with(-1, { kind: of, text: last.text + text }) : [...list, { kind: of, text }]
}

const merged = (list: readonly Segment[]): Segment[] => list.reduce<Segment[]>(add, [])

function through(gate: PrefixGate, list: readonly Segment[]): Segment[] | undefined {
  let out: Segment[] = []
  for (const segment of list) {
    const fresh = gate.push(segment.kind, segment.text)
    if (fresh === undefined) return undefined
    if (fresh !== '') out = add(out, { kind: segment.kind, text: fresh })
  }
  return gate.isOpen ? out : undefined
}

test('known text never comes out again, and all new text comes out, however it is split', () => {
  fc.assert(
    fc.property(deltas, deltas, fc.infiniteStream(fc.integer({ min: 1, max: 4 })), (known, fresh, sizes) => {
      const whole = merged([...known, ...fresh])
      const pieces = whole.flatMap(({ kind: of, text }) => {
        const out: Segment[] = []
        for (let from = 0; from < text.length;) {
          const size = sizes.next().value as number
          out.push({ kind: of, text: text.slice(from, from + size) })
          from += size
        }
        return out
      })
      const out = through(new PrefixGate([known]), pieces)
      assert.ok(out !== undefined)
      assert.deepEqual(merged([...known, ...out]), whole)
    }),
  )
})

test('an answer that starts differently is never let through', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (known, other) => {
      fc.pre(!other.startsWith(known))
      assert.equal(
        through(new PrefixGate([[{ kind: 'text', text: known }]]), [{ kind: 'text', text: other }]),
        undefined,
      )
    }),
  )
})

test('the same words as reasoning do not match', () => {
  const gate = new PrefixGate([[{ kind: 'text', text: 'hm' }]])
  assert.equal(gate.push('reasoning', 'hm'), undefined)
})

test('an echo of everything and a bare continuation are both recognised', () => {
  const alternatives: Segment[][] = [[{ kind: 'text', text: ' b' }], [{ kind: 'text', text: 'a b' }]]
  for (const said of [' bc', 'a bc'])
    assert.deepEqual(through(new PrefixGate(alternatives), [{ kind: 'text', text: said }]), [
      { kind: 'text', text: 'c' },
    ])
  assert.equal(through(new PrefixGate(alternatives), [{ kind: 'text', text: 'a' }]), undefined)
  assert.equal(through(new PrefixGate(alternatives), [{ kind: 'text', text: 'b' }]), undefined)
})

test('of a long text, a difference of one character is found, wherever it is, and also inside a character', () => {
  const known = new KnownText([{ kind: 'text', text: '😀 word'.repeat(5_000) }])
  for (const at of [0, 4_090, 4_094, 4_095, 4_096, 20_000, 34_998]) {
    const other = '😀 word'.repeat(5_000).split('')
    other[at] = other[at] === 'w' ? 'W' : '\ude00'
    if (other.join('') === '😀 word'.repeat(5_000)) other[at] = '\ude01'
    assert.equal(through(new PrefixGate([known]), [{ kind: 'text', text: other.join('') }]), undefined, String(at))
  }
  const same: Segment = { kind: 'text', text: '😀 word'.repeat(5_001) }
  assert.deepEqual(through(new PrefixGate([known]), [same]), [{ kind: 'text', text: '😀 word' }])
})

test('comparing a long answer in small pieces takes time linear in its length', () => {
  const words = 250_000 // a megabyte; compared from the start at each piece this takes a quarter of an hour
  const gate = new PrefixGate([[{ kind: 'text', text: 'word'.repeat(words) }]])
  for (let word = 0; word < words; word++) assert.equal(gate.push('text', 'word'), '')
  assert.equal(gate.isOpen, true)
  assert.equal(gate.push('text', 'more'), 'more')
})
