/**
 * What the gateway adds, in three dialects: latency, time to the first chunk, CPU per million chunks in bulk and paced, and memory for
 * readers that stop reading; beside a trivial proxy in Node, nginx, and Portkey's gateway.
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { barPlot, quantile, report, round, table } from './kit.ts'
import { startNginx } from './peers/nginx.ts'
import { PORTKEY, portkeyHeaders, startPortkey } from './peers/portkey.ts'
import type { StreamDialect } from './programs/stream-server.ts'

const PACED = { chunks: 300, pauseMs: 3, streams: 8 }
const POURED = 100_000
const FIRSTS = 9
const ROUNDS = 9
const STALLED = { readers: 24, chunks: 2_000_000, looks: 40 }

const DIALECTS: Readonly<Record<StreamDialect, { readonly path: string; readonly body: string }>> = {
  chat: { path: 'chat/completions', body: '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}' },
  messages: {
    path: 'messages',
    body: '{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x"}]}',
  },
  responses: { path: 'responses', body: '{"model":"m","stream":true,"input":"x"}' },
}

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
const server = spawn(process.execPath, [here('programs/stream-server.ts')], { stdio: ['ignore', 'pipe', 'inherit'] })
const [line] = (await once(server.stdout, 'data')) as [Buffer]
const origin = line.toString().trim()
const gateway = await started('programs/gateway-process.ts', `${origin}/v1`)
const trivial = await started('programs/pass-through.ts', origin)
const nginx = await startNginx(origin)
const portkey = await startPortkey()
process.on('exit', () => {
  for (const child of [gateway.child, trivial.child, server]) child.kill('SIGKILL')
  if (typeof nginx !== 'string') nginx.stop()
  if (typeof portkey !== 'string') portkey.stop()
})

type Candidate = {
  readonly name: 'direct' | 'trivial' | 'nginx' | 'gateway' | 'portkey'
  readonly pid: number
  readonly ask: (dialect: StreamDialect, chunks: number, pauseMs: number) => Promise<Response>
}
type Name = Candidate['name']

const CANDIDATES: readonly Candidate[] = [
  { name: 'direct', pid: 0, ask: asking(`${origin}/v1`) },
  { name: 'trivial', pid: trivial.pid, ask: asking(trivial.url) },
  ...(typeof nginx === 'string' ? [] : [{ name: 'nginx' as const, pid: nginx.pid, ask: asking(nginx.url) }]),
  { name: 'gateway', pid: gateway.pid, ask: asking(gateway.url) },
  ...(typeof portkey === 'string'
    ? []
    : [{ name: 'portkey' as const, pid: portkey.pid, ask: askingPortkey(portkey.url) }]),
]
/** Portkey's other dialects need other settings, and chat is what most of its users send. */
const speaks = (name: Name, dialect: StreamDialect): boolean => name !== 'portkey' || dialect === 'chat'

type Sample = {
  readonly p50: number
  readonly p99: number
  readonly first: number
  readonly bulk: number
  readonly paced: number
}
const samples = new Map<string, Sample[]>()
const keyOf = (dialect: StreamDialect, name: Name): string => `${dialect} ${name}`
const dialects = Object.keys(DIALECTS) as StreamDialect[]

for (let index = 0; index <= ROUNDS; index++) {
  for (const dialect of dialects)
    for (const candidate of CANDIDATES) {
      if (!speaks(candidate.name, dialect)) continue
      const sample = await measured(candidate, dialect)
      if (index === 0) continue // warm-up
      const key = keyOf(dialect, candidate.name)
      samples.set(key, [...(samples.get(key) ?? []), sample])
    }
  process.stderr.write(`round ${index} of ${ROUNDS}\n`)
}
const stalledMb = await stalledReaders()

// ---- the report ----

/** The median round: one in which the machine was busy with something else says nothing about us. */
const of = (dialect: StreamDialect, name: Name, what: keyof Sample): number =>
  quantile(
    (samples.get(keyOf(dialect, name)) ?? []).map((sample) => sample[what]),
    0.5,
  )
/** Median of the ratios of each round. */
const ratio = (dialect: StreamDialect, to: Name, what: 'bulk' | 'paced'): number => {
  const others = samples.get(keyOf(dialect, to)) ?? []
  const ours = samples.get(keyOf(dialect, 'gateway')) ?? []
  return quantile(
    ours.map((sample, index) => sample[what] / (others[index]?.[what] ?? Number.NaN)),
    0.5,
  )
}
const LABELS: Readonly<Record<Name, string>> = {
  direct: 'direct',
  trivial: 'a trivial proxy in Node',
  nginx: 'nginx',
  gateway: 'the gateway',
  portkey: "Portkey's gateway",
}
const shown = (value: number): string | number => (Number.isFinite(value) ? round(value) : '')
const rows = dialects.flatMap((dialect) =>
  CANDIDATES.filter(({ name }) => speaks(name, dialect)).map(({ name }) => [
    `${dialect}: ${LABELS[name]}`,
    shown(of(dialect, name, 'first')),
    shown(of(dialect, name, 'p50')),
    shown(of(dialect, name, 'p99')),
    name === 'direct' ? '' : shown(of(dialect, name, 'bulk')),
    name === 'direct' ? '' : shown(of(dialect, name, 'paced')),
  ]),
)
const goals = dialects.map((dialect) => [
  dialect,
  round(ratio(dialect, 'trivial', 'bulk')),
  round(ratio(dialect, 'trivial', 'paced')),
  dialect === 'chat' && typeof portkey !== 'string' ? round(ratio(dialect, 'portkey', 'bulk')) : '',
  round(of(dialect, 'gateway', 'first') - of(dialect, 'direct', 'first')),
])
const away = [
  ...(typeof nginx === 'string' ? [`nginx did not take part: ${nginx}.`] : [`nginx ${nginx.version} with one worker.`]),
  typeof portkey === 'string'
    ? `Portkey's gateway did not take part: ${portkey}.`
    : `Portkey's gateway ${PORTKEY.version}, with \`@hono/node-server\` ${PORTKEY.nodeServer}: with newer ones its streams fail.`,
]
report('gateway', {
  title: 'What the gateway adds',
  text: `${table(['', 'first chunk, ms', 'latency of a chunk p50, ms', 'p99, ms', 'CPU s per million chunks, in bulk', 'paced'], rows)}

${table(['the gateway', 'CPU in bulk × trivial proxy (goal 2.5)', 'paced × trivial proxy (goal 1.3)', "in bulk × Portkey's (goal 0.2)", 'first chunk, ms later (goal 1)'], goals)}

Paced: ${PACED.streams} streams with a chunk every ${PACED.pauseMs} ms. In bulk: one stream of ${POURED} chunks, as fast as it goes.
Memory for each of ${STALLED.readers} readers that stop reading an answer of ${STALLED.chunks} chunks: ${round(stalledMb)} MB. Goal: at most 4 MB.
${away.join(' ')}
Server, proxies and client are processes of their own on one machine. Medians of ${ROUNDS} interleaved rounds.`,
  svg: barPlot(
    'CPU seconds per million chunks, in bulk',
    dialects.flatMap((dialect) =>
      CANDIDATES.filter(({ name }) => name !== 'direct' && speaks(name, dialect)).map(({ name }) => ({
        name: `${dialect}: ${LABELS[name]}`,
        value: of(dialect, name, 'bulk'),
      })),
    ),
  ),
})
process.exit()

// ---- details, in the order they are used above ----

async function started(file: string, upstream: string) {
  const child = fork(here(file), [upstream])
  const [{ url }] = (await once(child, 'message')) as [{ url: string }]
  return { child, url, pid: child.pid ?? 0 }
}

function asking(url: string): Candidate['ask'] {
  return (dialect, chunks, pauseMs) =>
    post(`${url}/${DIALECTS[dialect].path}?chunks=${chunks}&pauseMs=${pauseMs}`, DIALECTS[dialect].body)
}

function askingPortkey(url: string): Candidate['ask'] {
  return (dialect, chunks, pauseMs) => {
    const { path, body } = DIALECTS[dialect]
    return post(`${url}/${path}`, body, portkeyHeaders(`${origin}/c${chunks}-p${pauseMs}/v1`))
  }
}

/** A kept connection may close just as it is used again, so a request that reached no one is sent once more. */
function post(url: string, body: string, headers: Record<string, string> = {}): Promise<Response> {
  const send = (): Promise<Response> =>
    fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
  return send().catch(send)
}

async function measured(candidate: Candidate, dialect: StreamDialect): Promise<Sample> {
  const { name, pid } = candidate
  // One at a time: streams that start at once on two cores mostly wait for each other.
  const firsts: number[] = []
  for (let index = 0; index < FIRSTS; index++) firsts.push((await read(candidate, dialect, 3, 1)).firstMs)
  const before = cpuMs(pid)
  const streams = Array.from({ length: PACED.streams }, () => read(candidate, dialect, PACED.chunks, PACED.pauseMs))
  const paced = await Promise.all(streams)
  const between = cpuMs(pid)
  const { chunks } = await read(candidate, dialect, POURED, 0)
  const after = cpuMs(pid)
  if (chunks < POURED) throw new Error(`${name}, ${dialect}: ${chunks} of ${POURED} chunks came`)
  const latencies = paced.flatMap(({ latenciesMs }) => latenciesMs)
  return {
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    first: quantile(firsts, 0.5),
    paced: ((between - before) / (PACED.streams * PACED.chunks)) * 1000,
    bulk: ((after - between) / POURED) * 1000,
  }
}

/** Counts frames, and measures how long each stamped frame was on its way. */
async function read({ ask }: Candidate, dialect: StreamDialect, count: number, pauseMs: number) {
  const from = performance.now()
  const res = await ask(dialect, count, pauseMs)
  const decoder = new TextDecoder()
  const latenciesMs: number[] = []
  let [chunks, firstMs, rest] = [0, Number.NaN, '']
  for await (const bytes of res.body ?? []) {
    const now = process.hrtime.bigint()
    const blocks = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    chunks += blocks.length
    if (pauseMs === 0) continue
    for (const block of blocks) {
      const sent = /"(?:content|text|delta)":"(\d+) "/.exec(block)?.[1]
      if (sent === undefined) continue
      if (latenciesMs.length === 0) firstMs = performance.now() - from
      latenciesMs.push(Number(now - BigInt(sent)) / 1e6)
    }
  }
  return { chunks, latenciesMs, firstMs }
}

/** CPU time of all threads of a process, in steps far below a clock tick. */
function cpuMs(pid: number): number {
  if (pid === 0) return 0
  const threads = readdirSync(`/proc/${pid}/task`)
  const ns = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  )
  return ns.reduce((sum, each) => sum + each, 0) / 1e6
}

/** How much memory the gateway needs for each reader that never reads. */
async function stalledReaders(): Promise<number> {
  const rssMb = (): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) / 1024
  const { path, body } = DIALECTS.chat
  const { port } = new URL(gateway.url)
  const before = rssMb()
  const sockets = Array.from({ length: STALLED.readers }, () => {
    const socket = connect(Number(port), '127.0.0.1')
    socket.pause()
    socket.on('error', () => undefined)
    const head = `POST /v1/${path}?chunks=${STALLED.chunks} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${body.length}\r\n\r\n`
    socket.write(head + body)
    return socket
  })
  let most = 0
  for (let look = 0; look < STALLED.looks; look++) {
    await sleep(250)
    most = Math.max(most, rssMb() - before)
  }
  for (const socket of sockets) socket.destroy()
  return most / STALLED.readers
}
