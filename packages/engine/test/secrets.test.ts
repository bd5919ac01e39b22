import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Secrets, SecretStream } from '../src/secrets.ts'
import { diceOf } from '../../../test/kit/dice.ts'

const KEY = 'an-unusual-key-without-a-known-shape'

function knowing(...values: readonly string[]): Secrets {
  const secrets = new Secrets()
  secrets.set('the configuration', values)
  return secrets
}

/** What was shown after each chunk, and after the end. */
function heard(secrets: Secrets, pieces: readonly string[]): string {
  const stream = new SecretStream<number>(secrets)
  const said = pieces.map((piece, index) => stream.push(piece, index).text)
  return said.join('') + (stream.end()?.text ?? '')
}

test('known secrets are removed by value, also if JSON has escaped them once or twice', () => {
  const secrets = knowing('my-"odd"-key-1', 'short')
  const said = (value: unknown): unknown => secrets.scrubValue(value, JSON.stringify(value))
  assert.deepEqual(said({ error: 'bad key my-"odd"-key-1 and short' }), { error: 'bad key [redacted] and short' })
  const quoted = JSON.stringify({ k: 'my-"odd"-key-1' })
  assert.deepEqual(said({ n: 1, list: [quoted, null] }), { n: 1, list: ['{"k":"[redacted]"}', null] })
  assert.deepEqual(said({ a: { 'my-"odd"-key-1': true } }), { a: { '[redacted]': true } }, 'as a name')
  const plain = { text: 'nothing' }
  assert.equal(said(plain), plain)
  secrets.set('the configuration', ['the-next-key-2'])
  assert.equal(secrets.scrub('my-"odd"-key-1 or the-next-key-2'), '[redacted] or [redacted]', 'the one before stays')
})

test('text that only looks like a secret because JSON escaped a line break before it stays, and stays JSON', () => {
  const secrets = knowing('nvapi-0123456789', KEY)
  const value = { text: `\nvapi-0123456789 ${KEY}` }
  assert.deepEqual(secrets.scrubValue(value, JSON.stringify(value)), { text: '\nvapi-0123456789 [redacted]' })
  const line = `${JSON.stringify({ msg: `\nvapi-0123456789 ${KEY} C:\\nvapi-0123456789` })}\n`
  assert.deepEqual(JSON.parse(secrets.scrubLine(line)), { msg: '\nvapi-0123456789 [redacted] C:\\[redacted]' })
})

test('placeholders for an unneeded key are not secrets: removing them would remove ordinary words', () => {
  const secrets = knowing('lm-studio', 'not-needed', 'a key', 'correcthorsebatterystaple', 'lmStudio9')
  assert.equal(
    secrets.scrub('lm-studio is not-needed, correcthorsebatterystaple and lmStudio9 are'),
    'lm-studio is not-needed, [redacted] and [redacted] are',
  )
})

test('if one secret is a prefix of another, nothing of either stays', () => {
  for (const values of [
    ['key-12345678', 'key-12345678-and-more'],
    ['key-12345678-and-more', 'key-12345678'],
  ]) {
    const secrets = knowing(...values)
    const text = 'key-12345678-and-more, key-12345678, key-12345678-and'
    assert.equal(secrets.scrub(text), '[redacted], [redacted], [redacted]-and')
    for (let cut = 0; cut <= text.length; cut += 1)
      assert.equal(
        heard(secrets, [text.slice(0, cut), text.slice(cut), '.']),
        '[redacted], [redacted], [redacted]-and.',
      )
  }
})

test('a secret in two chunks is removed wherever it is cut, and also if every character is a chunk', () => {
  const secrets = knowing(KEY, 'my-"odd"-key-1')
  for (const secret of [KEY, 'my-"odd"-key-1', JSON.stringify('my-"odd"-key-1').slice(1, -1)]) {
    const text = `it is ${secret}.`
    for (let cut = 0; cut <= text.length; cut += 1)
      assert.equal(heard(secrets, [text.slice(0, cut), text.slice(cut)]), 'it is [redacted].', `cut at ${cut}`)
    assert.equal(heard(secrets, text.split('')), 'it is [redacted].')
  }
})

test('only a possible start of a secret is held back, and it is shown as soon as it cannot be one', () => {
  const stream = new SecretStream<string>(knowing(KEY))
  assert.deepEqual(stream.push('all is well\n', 'a'), { text: 'all is well\n', mark: 'a' })
  assert.equal(stream.held, null)
  assert.deepEqual(stream.push('I am at a', 'b'), { text: 'I am at ', mark: 'b' })
  assert.deepEqual(stream.held, { text: 'a', mark: 'b' })
  assert.deepEqual(stream.push('n-', 'c'), { text: '', mark: 'b' })
  assert.deepEqual(stream.held, { text: 'an-', mark: 'b' })
  assert.deepEqual(stream.push('end', 'd'), { text: 'an-end', mark: 'b' })
  assert.deepEqual(stream.push('ing', 'e'), { text: 'ing', mark: 'e' })
  assert.equal(stream.end(), null)
})

test('the start of a secret at the end of the text is shown, unless it is most of the secret', () => {
  const secrets = knowing(KEY)
  assert.equal(heard(secrets, ['it is an', '-unus']), 'it is an-unus')
  assert.equal(heard(secrets, ['it is an-unusual', KEY.slice(10, 20)]), 'it is [redacted]')
  assert.equal(heard(knowing('lmStudio9'), ['lmSt', 'ud']), 'lmStud', 'what is shorter than any secret is none')
})

test('any text in any chunks is shown like the whole text', (t) => {
  const seed = Number(process.env['SEED'] ?? 20_261_116)
  t.diagnostic(`SEED=${seed}`)
  const dice = diceOf(seed)
  const upTo = (max: number): number => Math.floor(dice() * (max + 1))
  // Few letters: secrets overlap, repeat and are prefixes of each other, and texts are full of their prefixes.
  const word = (chars: number): string => Array.from({ length: chars }, () => 'ab0"'.charAt(upTo(3))).join('')
  let found = 0
  for (let round = 0; round < 1_500; round += 1) {
    const first = `0${word(8 + upTo(8))}`
    const secrets = knowing(first, first + word(1 + upTo(6)), `1${word(7)}${first}`, first.slice(3) + word(8))
    const text = Array.from({ length: 12 }, () =>
      dice() < 0.5 ? word(upTo(6)) : first.slice(upTo(2), 4 + upTo(14)),
    ).join('')
    const pieces: string[] = []
    for (let at = 0; at < text.length;) {
      const chars = 1 + upTo(6)
      pieces.push(text.slice(at, at + chars))
      at += chars
    }
    const clean = secrets.scrub(`${text}.`)
    if (clean !== `${text}.`) found += 1
    assert.equal(heard(secrets, [...pieces, '.']), clean, JSON.stringify({ seed, round, pieces }))
  }
  assert.ok(found > 500 && found < 1_500, `${found} had a secret in them`)
})

test('a secret stays known, however many secrets other owners have', () => {
  const secrets = knowing(KEY)
  const first = secrets.session('first')
  first.set('box', ['the-token-of-the-first-0'])
  const others = Array.from({ length: 1_000 }, (_, n) => {
    const session = secrets.session(`other-${n}`)
    session.set('box', [`the-token-of-another-${n}`])
    secrets.set(`runner ${n}`, [`the-token-of-runner-${n}`])
    return session
  })
  const text = `${KEY} the-token-of-the-first-0 the-token-of-runner-7`
  assert.equal(first.scrub(text), '[redacted] [redacted] [redacted]')
  assert.equal(
    others[999]?.scrub(text),
    '[redacted] the-token-of-the-first-0 [redacted]',
    'only the daemon and its own',
  )
  const line = JSON.stringify({ msg: `${text} the-token-of-another-999` })
  assert.deepEqual(JSON.parse(secrets.scrubLine(line)), { msg: '[redacted] [redacted] [redacted] [redacted]' })
})

test('secrets go with their owner, and a changed secret stays known until the next change', () => {
  const secrets = knowing(KEY)
  const session = secrets.session('s')
  session.set('key for a', ['first-key-0000'])
  session.set('key for a', ['second-key-1111'])
  session.set('key for a', ['second-key-1111'])
  assert.equal(session.scrub('first-key-0000 second-key-1111'), '[redacted] [redacted]', 'it may still be quoted')
  session.set('key for a', ['third-key-2222'])
  assert.equal(session.scrub('first-key-0000 second-key-1111 third-key-2222'), 'first-key-0000 [redacted] [redacted]')
  session.drop('key for a')
  assert.equal(session.scrub(`third-key-2222 ${KEY}`), 'third-key-2222 [redacted]')
  secrets.set('the configuration', [])
  secrets.drop('the configuration')
  assert.equal(session.scrub(KEY), KEY)
})

test('a session that is loaded again has its secrets, and a name that is used twice has both', () => {
  const secrets = new Secrets()
  const held = secrets.session('s')
  held.set('key for a', ['a-key-that-was-brought'])
  const again = secrets.session('s')
  again.set('box', ['a-token-for-the-box'])
  assert.equal(held.scrub('a-key-that-was-brought a-token-for-the-box'), '[redacted] [redacted]')
})
