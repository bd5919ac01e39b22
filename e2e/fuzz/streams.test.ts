/** Random streams through a real gateway, with new seeds each time, and what such streams found before. `npm run fuzz` runs longer. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { isText, merged } from './answer.ts'
import { APIS } from './apis.ts'
import { Client } from './client.ts'
import { fuzz } from './fuzz.ts'
import { Dice } from './dice.ts'
import { makeAnswer } from './answer.ts'
import { makeCase } from './generate.ts'
import { parsed } from './json.ts'
import { framesOf, judge, shown } from './oracle.ts'
import { REGRESSIONS, SIX_WORDS } from './regressions.ts'
import { Rig, type Run } from './rig.ts'
import { shrink } from './shrink.ts'
import { told } from './told.ts'
import { SPOILS, spoiled } from './spoils.ts'

const STREAMS_MIN = 200 // on a slow machine
const STREAMS_MAX = 6_000
const BUDGET_MS = 20_000

const DELTA = 'response.output_text.delta'

describe('random streams', () => {
  let rig: Rig
  before(async () => {
    rig = await Rig.start()
  })
  after(() => rig[Symbol.asyncDispose]())

  test('whatever breaks, a client gets one whole answer or sees that it did not', async (t) => {
    const seed = Date.now() % 1_000_000_000
    t.diagnostic(`seeds from ${seed}`)
    const until = performance.now() + BUDGET_MS
    const wrong: { readonly seed: number; readonly run: Run }[] = []
    let started = 0
    const tally = await fuzz(rig, {
      seed,
      streamsMax: STREAMS_MAX,
      isOver: () => ++started > STREAMS_MIN && (performance.now() > until || wrong.length >= 5),
      onWrong: (own, run) => void wrong.push({ seed: own, run }),
    })
    const shown: string[] = []
    for (const { seed: own, run } of wrong.slice(0, 2)) {
      const shrunk = await shrink(rig, own, undefined, run.verdict.wrong?.kind ?? '')
      shown.push(`npm run fuzz -- --seed ${own}\n${told(shrunk?.run ?? run)}`)
    }
    assert.equal(wrong.length, 0, shown.join('\n\n'))
    assert.ok(tally.streams >= STREAMS_MIN && tally.healed > tally.streams / 10, JSON.stringify(tally))
    t.diagnostic(JSON.stringify(tally))
  })

  test('the judge notices every wrong that is planted in an answer, in each API', async () => {
    const noticed = new Set<string>()
    const missed: string[] = []
    for (const { name: api } of APIS) {
      for (let seed = 1; seed <= 60; seed++) {
        const run = await rig.run(makeCase({ seed, api }))
        const { made, sent, reply, verdict } = run
        if (verdict.wrong !== undefined || (verdict.end !== 'accepted' && verdict.end !== 'healed')) continue
        if (!made.path.includes('alt=sse') && api === 'gemini') continue // the same frames in an array
        for (const [what, spoil] of Object.entries(SPOILS)) {
          const worse = spoiled(made, reply, spoil)
          if (worse === undefined) continue
          const { wrong } = judge(made, sent, worse)
          if (wrong === undefined) missed.push(`${what}: --seed ${seed} --api ${api}`)
          noticed.add(`${api}: ${what}`)
        }
      }
    }
    assert.deepEqual(missed, [])
    const possible = APIS.flatMap(({ name }) => Object.keys(SPOILS).map((what) => `${name}: ${what}`))
    const impossible = possible.filter((one) => !noticed.has(one))
    assert.deepEqual(impossible, [
      'openai-chat: the final object has other words',
      'openai-responses: a signature is missing',
      'anthropic-messages: the final object has other words',
      'gemini: the final object has other words',
      'bedrock-messages: the final object has other words',
      'ollama: a signature is missing',
      'ollama: the final object has other words',
    ])
  })

  test('the judge accepts a sign of life, and numbered events that became one after it, but no other change', async () => {
    const { made, sent, reply } = await rig.run(SIX_WORDS)
    const frames = framesOf(made, reply) ?? []
    const at = frames.findIndex(({ event }) => event === DELTA)
    const ping = { event: 'response.in_progress', data: '{"type":"response.in_progress"}' }
    const told = (...deltas: readonly string[]): string | undefined => {
      const body = [
        ...frames.slice(0, at),
        ...deltas.map((delta) => ({
          event: DELTA,
          data: JSON.stringify({ ...parsed(frames[at]?.data ?? ''), delta }),
        })),
        ...frames.slice(at).filter(({ event }) => event !== DELTA),
      ]
        .toSpliced(1, 0, ...(deltas.length < 6 ? [ping] : []))
        .map(({ event, data }, number) => ({ event, json: { ...parsed(data), sequence_number: number } }))
        .map(({ event, json }) => `event: ${event}\ndata: ${JSON.stringify(json)}\n\n`)
      return judge(made, sent, { ...reply, body: Buffer.from(body.join('')) }).wrong?.kind
    }
    assert.equal(told('a ', 'b ', 'c ', 'd ', 'e ', 'f'), undefined)
    assert.equal(told('a ', 'b c d ', 'e ', 'f'), undefined)
    assert.equal(told('a ', 'b c', ' d ', 'e ', 'f'), 'changed frame')
    assert.equal(told('a ', 'b d ', 'e ', 'f'), 'protocol: response.output')
  })

  test('the readers read in each stream what the model meant, so a mistake in one is not taken for the truth', () => {
    for (const api of APIS)
      for (let seed = 1; seed <= 300; seed++) {
        const dice = new Dice(seed)
        const answer = makeAnswer(dice.in('answer'), api.abilities)
        const said = api.read(api.frames(dice.in('frames'), answer, 0, api.request(dice.in('request'), answer).body))
        assert.deepEqual(said.problems, [], `${api.name} ${seed}`)
        assert.ok(said.isProven)
        for (const [lane, { pieces }] of answer.lanes.entries()) {
          const wanted = (kind: string): unknown[] =>
            merged(pieces.filter((piece) => piece.kind === kind)).map((piece) =>
              isText(piece) ? piece.text : piece.kind === 'call' ? [piece.name, piece.args] : piece.id,
            )
          for (const kind of ['text', 'refusal', 'call']) {
            const own = said.pieces.filter((piece) => piece.kind === kind && piece.lane === lane)
            const got = merged(own.flatMap((piece) => (piece.kind === 'item' ? [] : [piece]))).map((piece) =>
              isText(piece) ? piece.text : piece.kind === 'call' ? [piece.name, piece.args] : piece.id,
            )
            assert.deepEqual(got, wanted(kind), `${api.name} ${seed}: ${shown(said)}`)
          }
        }
      }
  })

  for (const { name, made } of REGRESSIONS)
    test(name, async () => {
      const run = await rig.run(made)
      assert.equal(run.verdict.wrong, undefined, told(run))
    })
})

test('an answer that never ends is a hang', async () => {
  const silent = createServer((socket) => void socket.on('error', () => socket.destroy()))
  await once(silent.listen(0, '127.0.0.1'), 'listening')
  const client = new Client(1)
  const { isHung } = await client.ask((silent.address() as AddressInfo).port, '/', '{}', {})
  client.close()
  silent.close()
  assert.ok(isHung)
})

test('the same seed makes the same streams', () => {
  for (let seed = 1; seed <= 50; seed++) assert.deepEqual(makeCase({ seed }), makeCase({ seed }))
})
