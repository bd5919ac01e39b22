/** Reading a model's event stream, compared with a lower bound: JSON.parse of the same payloads. */
import { SseDecoder } from '@breakfall/wire'
import { barPlot, compare, report, round, table } from './kit.ts'

const CHUNKS = 50_000
const payload = (i: number): string =>
  JSON.stringify({
    id: 'chatcmpl-123',
    object: 'chat.completion.chunk',
    created: 1_763_000_000,
    model: 'a-model',
    system_fingerprint: 'fp_44709d6fcb',
    choices: [{ index: 0, delta: { content: ` word${i % 97}` }, logprobs: null, finish_reason: null }],
  })

const payloads = Array.from({ length: CHUNKS }, (_, i) => payload(i))
const stream = Buffer.from(payloads.map((data) => `data: ${data}\n\n`).join(''))
/** As a socket delivers them: some events each, cut anywhere. */
const reads: Buffer[] = []
for (let at = 0; at < stream.length; at += 4096) reads.push(stream.subarray(at, at + 4096))

let sum = 0
const results = await compare([
  {
    name: 'JSON.parse alone (floor)',
    run: () => {
      for (const data of payloads) sum += (JSON.parse(data) as { choices: unknown[] }).choices.length
    },
  },
  {
    name: 'SseDecoder and JSON.parse',
    run: () => {
      const decoder = new SseDecoder({
        onEvent: (frame) => void (sum += (JSON.parse(frame.data) as { choices: unknown[] }).choices.length),
      })
      for (const bytes of reads) decoder.push(bytes)
    },
  },
])
if (sum === 0) throw new Error('nothing was decoded')

const micros = (ms: number): number => round((ms * 1000) / CHUNKS)
report('sse-decode', {
  title: 'Decoding server-sent events',
  text: `${table(
    ['what', 'CPU µs per event', 'times the floor'],
    results.map((r) => [r.name, micros(r.cpuMs), round(r.ratio)]),
  )}\n\nGoal: at most 1.3 times the floor.`,
  svg: barPlot(
    'CPU against JSON.parse alone',
    results.map((r) => ({ name: r.name, value: r.ratio })),
    { goal: 1.3, unit: '×' },
  ),
})
