/** Text from models, tools and paths: what reaches the page, and what never does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ansiLines, plainOutput } from '../src/text/ansi.ts'
import { ago, countdown, exactTime, length } from '../src/text/format.ts'
import { blocksOf, markdown, type Node, safeHref, TAGS } from '../src/text/markdown.ts'
import { oneLine, printable, reveal } from '../src/text/reveal.ts'

const textOf = (nodes: readonly Node[]): string =>
  nodes.map((node) => (node.kind === 'text' || node.kind === 'code' ? node.text : textOf(node.children))).join('')

const walk = (nodes: readonly Node[]): readonly Node[] =>
  nodes.flatMap((node) => [node, ...(node.kind === 'text' || node.kind === 'code' ? [] : walk(node.children))])

test('whatever Markdown holds, only listed elements and safe links come out', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.string(),
          fc.constantFrom(
            '<script>',
            '[a](javascript:x)',
            '![i](http://x/y)',
            '> ',
            '- ',
            '`',
            '```\n',
            '**',
            '|a|b|\n|-|-|\n',
            '\n\n',
            '<b>',
          ),
        ),
        { maxLength: 30 },
      ),
      (pieces) => {
        for (const block of blocksOf(pieces.join(''))) {
          for (const node of walk(markdown(block))) {
            if (node.kind === 'element') assert.ok(TAGS.includes(node.tag))
            if (node.kind === 'link') assert.match(node.href, /^(?:https?|mailto):/)
          }
        }
      },
    ),
    { numRuns: 400 },
  )
})

test('HTML stays text, images become links, and a link shows its host', () => {
  assert.equal(textOf(markdown('<img src=x onerror=alert(1)>')).trim(), '<img src=x onerror=alert(1)>')
  assert.equal(walk(markdown('a <b>c</b>')).filter((node) => node.kind === 'element' && node.tag !== 'p').length, 0)
  const [link] = walk(markdown('![cat](http://other/?q=secret)')).filter((node) => node.kind === 'link')
  assert.ok(link?.kind === 'link')
  assert.deepEqual([link.href, link.host, textOf(link.children)], ['http://other/?q=secret', 'other', 'image: cat'])
  assert.equal(
    walk(markdown('[x](javascript:alert(1))')).some((node) => node.kind === 'link'),
    false,
  )
  assert.equal(
    walk(markdown('[x](data:text/html,hi)')).some((node) => node.kind === 'link'),
    false,
  )
  assert.equal(safeHref('vbscript:x'), null)
})

test('what would overflow or stall the lexer stays plain text, at once', () => {
  for (const hostile of [
    '>'.repeat(5_000),
    '- '.repeat(3_000),
    '*'.repeat(50_000),
    '['.repeat(20_000),
    'x'.repeat(1_000_000),
  ]) {
    const from = performance.now()
    assert.equal(textOf(blocksOf(hostile).flatMap(markdown)).replaceAll(/\s/g, '').length > 0, true)
    assert.ok(performance.now() - from < 2_000)
  }
})

test('a block that streams in changes only the last block', () => {
  const text = 'one\n\n```sh\nls\n\nls -l\n```\n\n1. a\n2. b\n\nlast'
  const blocks = blocksOf(text)
  assert.equal(blocks.join(''), text)
  assert.equal(blocks.length, 4)
  for (let at = 1; at < text.length; at += 1) {
    const early = blocksOf(text.slice(0, at))
    assert.deepEqual(early.slice(0, -1), blocksOf(text).slice(0, early.length - 1))
  }
})

test('colours become classes, every other escape is dropped, and a carriage return overwrites', () => {
  assert.deepEqual(ansiLines('\u001b[31mred\u001b[0m plain')[0]?.spans, [
    { text: 'red', style: 'c1' },
    { text: ' plain', style: '' },
  ])
  assert.equal(plainOutput('\u001b]8;;http://evil\u0007click\u001b]8;;\u0007'), 'click')
  assert.equal(plainOutput('\u001b]52;c;c2VjcmV0\u0007x'), 'x')
  assert.equal(plainOutput('\u001b[2J\u001b[10;10Hhere'), 'here')
  assert.equal(plainOutput('10 %\r50 %\r100 %'), '100 %')
  assert.equal(plainOutput('abc\rX'), 'Xbc')
  assert.equal(plainOutput('line\r\nnext'), 'line\nnext')
  assert.equal(ansiLines('y'.repeat(10_000))[0]?.cut, 10_000 - 4_096)
  fc.assert(
    fc.property(
      fc.string({
        unit: fc.constantFrom('\u001b', '[', ']', '3', '1', ';', 'm', '\u0007', '\r', '\n', 'a', '\u0000', '\u009b'),
      }),
      (text) => {
        assert.doesNotMatch(plainOutput(text), /(?!\n)\p{Cc}/u)
      },
    ),
  )
})

test('invisible characters are shown in commands, paths and titles; an emoji stays whole', () => {
  assert.equal(reveal('rm \u202etxt.exe'), 'rm ⟦U+202E⟧txt.exe')
  assert.equal(reveal('a\u200bb\ufeffc\r'), 'a⟦U+200B⟧b⟦U+FEFF⟧c⟦U+000D⟧')
  assert.equal(reveal('👩‍💻 ok'), '👩‍💻 ok')
  assert.equal(printable('a\u0000b\tc\n'), 'a⟦U+0000⟧b\tc\n')
  assert.equal(oneLine('  many\n\n lines  ', 8), 'many li…')
})

test('durations, ages and countdowns read as people say them, and never below zero', () => {
  assert.deepEqual([0, 52, 999, 8_200, 59_960, 72_000, 7_440_000].map(length), [
    '0 ms',
    '52 ms',
    '999 ms',
    '8.2 s',
    '1:00',
    '1:12',
    '2 h 04',
  ])
  assert.deepEqual([7_000, 6_001, 1_000, 1, 0, -5_000, 3_661_000].map(countdown), [
    '0:07',
    '0:07',
    '0:01',
    '0:01',
    'now…',
    'now…',
    '1:01:01',
  ])
  assert.deepEqual([0, 30_000, 120_000, 7_200_000, 90_000_000, 300_000_000].map(ago), [
    'just now',
    '30 s ago',
    '2 min ago',
    '2 h ago',
    'yesterday',
    '3 days ago',
  ])
  assert.equal(exactTime(Date.parse('2026-11-16T07:45:06.447Z'), true), '2026-11-16 07:45:06.447 UTC')
})
