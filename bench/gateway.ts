/** What the gateway adds: latency per chunk, and CPU per million chunks, against asking the same server directly and against Portkey's. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { PORTKEY, portkeyHeaders, startPortkey } from './peers/portkey.ts'
import { barPlot, quantile, report, round, table } from './kit.ts'

const PACED = { chunks: 400, pauseMs: 3, streams: 4 }
const POURED = 100_000
const ROUNDS = 9

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
const server = spawn(process.execPath, [here('programs/stream-server.ts')], { stdio: ['ignore', 'pipe', 'inherit'] })
const [line] = (await once(server.stdout, 'data')) as [Buffer]
const origin = line.toString().trim()
const direct = `${origin}/v1`
const gateway = fork(here('programs/gateway-process.ts'), [direct])
const [{ url: through }] = (await once(gateway, 'message')) as [{ url: string }]

const portkey = await startPortkey()

type Name = 'direct' | 'gateway' | 'portkey'
type Sample = {
  readonly p50Ms: number[]
  readonly p99Ms: number[]
  readonly chunksPerSecond: number[]
  readonly cpuMs: number[]
}
const samples: Record<Name, Sample> = {
  direct: { p50Ms: [], p99Ms: [], chunksPerSecond: [], cpuMs: [] },
  gateway: { p50Ms: [], p99Ms: [], chunksPerSecond: [], cpuMs: [] },
  portkey: { p50Ms: [], p99Ms: [], chunksPerSecond: [], cpuMs: [] },
}
const candidates: readonly { name: Name; ask: Ask; cpuMs: () => Promise<number> }[] = [
  { name: 'direct', ask: askAt(direct), cpuMs: async () => 0 },
  { name: 'gateway', ask: askAt(through), cpuMs: () => cpuOf(gateway) },
  ...(typeof portkey === 'string'
    ? []
    : [{ name: 'portkey' as const, ask: askThrough(portkey.url), cpuMs: async () => portkey.cpuMs() }]),
]

for (let index = 0; index <= ROUNDS; index++) {
  for (const { name, ask, cpuMs } of candidates) {
    const paced = await Promise.all(Array.from({ length: PACED.streams }, () => read(ask, PACED.chunks, PACED.pauseMs)))
    const before = await cpuMs()
    const from = performance.now()
    const { chunks } = await read(ask, POURED, 0)
    const seconds = (performance.now() - from) / 1000
    const after = await cpuMs()
    if (chunks < POURED) throw new Error(`${name}: ${chunks} of ${POURED} chunks came`)
    if (index === 0) continue // warm-up
    const latencies = paced.flatMap(({ latenciesMs }) => latenciesMs)
    samples[name].p50Ms.push(quantile(latencies, 0.5))
    samples[name].p99Ms.push(quantile(latencies, 0.99))
    samples[name].chunksPerSecond.push(POURED / seconds)
    samples[name].cpuMs.push(after - before)
  }
}
gateway.kill()
server.kill()
if (typeof portkey !== 'string') portkey.stop()

type Ask = (count: number, pauseMs: number) => Promise<Response>

function post(url: string, headers: Record<string, string> = {}): Promise<Response> {
  const body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}'
  return fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
}

function askAt(url: string): Ask {
  return (count, pauseMs) => post(`${url}/chat/completions?chunks=${count}&pauseMs=${pauseMs}`)
}

function askThrough(url: string): Ask {
  return (count, pauseMs) => post(`${url}/chat/completions`, portkeyHeaders(`${origin}/c${count}-p${pauseMs}/v1`))
}

/** Counts frames, and measures how long each stamped frame was on its way. */
async function read(ask: Ask, count: number, pauseMs: number): Promise<{ chunks: number; latenciesMs: number[] }> {
  const res = await ask(count, pauseMs)
  const decoder = new TextDecoder()
  const latenciesMs: number[] = []
  let chunks = 0
  let rest = ''
  for await (const bytes of res.body ?? []) {
    const now = process.hrtime.bigint()
    const blocks = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    chunks += blocks.length
    if (pauseMs === 0) continue
    for (const block of blocks) {
      const sent = /"content":"(\d+) "/.exec(block)?.[1]
      if (sent !== undefined) latenciesMs.push(Number(now - BigInt(sent)) / 1e6)
    }
  }
  return { chunks, latenciesMs }
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send('cpu')
  const [{ cpuMs }] = (await once(child, 'message')) as [{ cpuMs: number }]
  return cpuMs
}

/** The median round: one in which the machine was busy with something else says nothing about us. */
const at = (name: Name, q: 0.5 | 0.99): number => quantile(q === 0.5 ? samples[name].p50Ms : samples[name].p99Ms, 0.5)
const perSecond = (name: Name): number => Math.round(quantile(samples[name].chunksPerSecond, 0.5))
const added = at('gateway', 0.5) - at('direct', 0.5)
const cpuPerMillion = (name: Name): number => (quantile(samples[name].cpuMs, 0.5) / POURED) * 1000
const row = (what: string, name: Name): (string | number)[] => [
  what,
  round(at(name, 0.5)),
  round(at(name, 0.99)),
  perSecond(name),
  name === 'direct' ? '' : round(cpuPerMillion(name)),
]
const peer =
  typeof portkey === 'string'
    ? `Portkey's gateway did not take part: ${portkey}.`
    : `CPU against Portkey's gateway ${PORTKEY.version} (with \`@hono/node-server\` ${PORTKEY.nodeServer}: with newer ones its streams fail): ${round(cpuPerMillion('gateway') / cpuPerMillion('portkey'))} times. Goal: at most half.`
report('gateway', {
  title: 'What the gateway adds',
  text: `${table(
    ['', 'latency of a chunk p50, ms', 'p99, ms', 'chunks per second, one stream', 'CPU s per million chunks'],
    [
      row('direct', 'direct'),
      row('through the gateway', 'gateway'),
      ...(typeof portkey === 'string' ? [] : [row("through Portkey's", 'portkey')]),
    ],
  )}\n\nAdded per chunk: ${round(added)} ms (p50), ${round(at('gateway', 0.99) - at('direct', 0.99))} ms (p99), with ${PACED.streams} streams at a chunk every ${PACED.pauseMs} ms. Goal: at most 0.5 ms (p50).
${peer}
Server, gateways and client are processes of their own on one machine.`,
  svg: barPlot(
    'Latency of a chunk, ms',
    [
      { name: 'direct, p50', value: at('direct', 0.5) },
      { name: 'through the gateway, p50', value: at('gateway', 0.5) },
      { name: 'direct, p99', value: at('direct', 0.99) },
      { name: 'through the gateway, p99', value: at('gateway', 0.99) },
    ],
    { unit: ' ms' },
  ),
})
