/** What the gateway adds: latency per chunk, and CPU per million chunks, against asking the same server directly. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { barPlot, quantile, report, round, table } from './kit.ts'

const PACED = { chunks: 400, pauseMs: 3, streams: 4 }
const POURED = 100_000
const ROUNDS = 9

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
const server = spawn(process.execPath, [here('programs/stream-server.ts')], { stdio: ['ignore', 'pipe', 'inherit'] })
const [line] = (await once(server.stdout, 'data')) as [Buffer]
const direct = `${line.toString().trim()}/v1`
const gateway = fork(here('programs/gateway-process.ts'), [direct])
const [{ url: through }] = (await once(gateway, 'message')) as [{ url: string }]

type Sample = {
  readonly p50Ms: number[]
  readonly p99Ms: number[]
  readonly chunksPerSecond: number[]
  readonly cpuMs: number[]
}
const samples: Record<'direct' | 'gateway', Sample> = {
  direct: { p50Ms: [], p99Ms: [], chunksPerSecond: [], cpuMs: [] },
  gateway: { p50Ms: [], p99Ms: [], chunksPerSecond: [], cpuMs: [] },
}

for (let index = 0; index <= ROUNDS; index++) {
  for (const [name, url] of [
    ['direct', direct],
    ['gateway', through],
  ] as const) {
    const paced = await Promise.all(Array.from({ length: PACED.streams }, () => read(url, PACED.chunks, PACED.pauseMs)))
    const before = await cpuOf(gateway)
    const from = performance.now()
    const { chunks } = await read(url, POURED, 0)
    const seconds = (performance.now() - from) / 1000
    const after = await cpuOf(gateway)
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

/** Counts frames; where they are stamped, takes the time that each was under way. */
async function read(url: string, count: number, pauseMs: number): Promise<{ chunks: number; latenciesMs: number[] }> {
  const res = await fetch(`${url}/chat/completions?chunks=${count}&pauseMs=${pauseMs}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"model":"m","stream":true,"messages":[]}',
  })
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
      const sent = /"content":" (\d+)"/.exec(block)?.[1]
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
const at = (name: 'direct' | 'gateway', q: 0.5 | 0.99): number =>
  quantile(q === 0.5 ? samples[name].p50Ms : samples[name].p99Ms, 0.5)
const perSecond = (name: 'direct' | 'gateway'): number => Math.round(quantile(samples[name].chunksPerSecond, 0.5))
const added = at('gateway', 0.5) - at('direct', 0.5)
report('gateway', {
  title: 'What the gateway adds',
  text: `${table(
    ['', 'latency of a chunk p50, ms', 'p99, ms', 'chunks per second, one stream'],
    [
      ['direct', round(at('direct', 0.5)), round(at('direct', 0.99)), perSecond('direct')],
      ['through the gateway', round(at('gateway', 0.5)), round(at('gateway', 0.99)), perSecond('gateway')],
    ],
  )}\n\nAdded per chunk: ${round(added)} ms (p50), ${round(at('gateway', 0.99) - at('direct', 0.99))} ms (p99), with ${PACED.streams} streams at a chunk every ${PACED.pauseMs} ms.
CPU of the gateway: ${round((quantile(samples.gateway.cpuMs, 0.5) / POURED) * 1000)} s per million chunks. Goal: at most 0.5 ms added (p50).
Server, gateway and client are three processes on one machine.`,
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
