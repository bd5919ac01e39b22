/** What a supervised MCP server costs: a call and the start of 50 servers, against the SDK's own client on the same servers. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { McpHost, type McpServer } from '@breakfall/mcp'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { barPlot, compare, quantile, report, round, table } from './kit.ts'

const CALLS = 200
const SERVERS = 50
const STARTS = 7
const GOAL = 1.3

const program = (name: string): string =>
  fileURLToPath(new URL(`../packages/mcp/test/programs/${name}`, import.meta.url))
const MODERN = { command: process.execPath, args: [program('modern-server.mjs'), '/dev/null'] }
const TINY = { command: 'sh', args: [program('tiny-server.sh')] }

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))
const journal = openSync(join(folder, 'journal'), 'a')
const sync = (): void => {
  writeSync(journal, 'a call that is about to leave\n'.repeat(8))
  fdatasyncSync(journal)
}

async function sdkClient({ command, args }: typeof TINY, mode: 'legacy' | 'auto'): Promise<Client> {
  const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }))
  await client.listTools()
  return client
}

const NEVER = new AbortController().signal
let keys = 0
async function ours(server: McpServer | undefined, onSent: () => Promise<void>): Promise<void> {
  keys += 1
  const end = await server?.call(
    { tool: 'mcp__modern__add', arguments: { a: 1, b: 2 }, key: `k${keys}` },
    { signal: NEVER, onSent },
  )
  if (end?.kind !== 'answered' || end.text !== '3') throw new Error(`a call ended as ${end?.kind ?? 'nothing'}`)
}

const host = new McpHost({ stateDir: folder })
host.configure({ modern: MODERN })
await host.settled(60_000)
const server = host.server('modern')
const client = await sdkClient(MODERN, 'auto')
const each = (work: () => Promise<unknown>) => async (): Promise<void> => {
  for (let call = 0; call < CALLS; call += 1) await work()
}
const calls = await compare([
  { name: "the SDK's client", run: each(() => client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })) },
  {
    name: "the SDK's client, with a signal, time limits and progress",
    run: each(() =>
      client.callTool(
        { name: 'add', arguments: { a: 1, b: 2 } },
        {
          signal: NEVER,
          timeout: 300_000,
          maxTotalTimeout: 3_600_000,
          resetTimeoutOnProgress: true,
          onprogress: () => {},
        },
      ),
    ),
  },
  { name: 'supervised', run: each(() => ours(server, async () => undefined)) },
  { name: 'supervised, with one journal sync', run: each(() => ours(server, async () => sync())) },
  {
    name: "the SDK's client, with one journal sync",
    run: each(async () => {
      sync()
      await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })
    }),
  },
  { name: 'one journal sync alone', run: each(async () => sync()) },
])
await client.close()
await host.stop()

async function startSdk(): Promise<() => Promise<unknown>> {
  const clients = await Promise.all(Array.from({ length: SERVERS }, () => sdkClient(TINY, 'legacy')))
  return () => Promise.all(clients.map((started) => started.close()))
}

async function startOurs(): Promise<() => Promise<unknown>> {
  const many = new McpHost({ stateDir: folder })
  many.configure(Object.fromEntries(Array.from({ length: SERVERS }, (_, index) => [`s${index}`, TINY])))
  await many.settled(60_000)
  if (many.statuses.some(({ state }) => state !== 'ready')) throw new Error('a server is not ready')
  return () => many.stop()
}

const starts = { sdk: [] as number[], ours: [] as number[] }
for (let turn = 0; turn < STARTS; turn += 1) {
  for (const [name, start] of [
    ['sdk', startSdk],
    ['ours', startOurs],
  ] as const) {
    const from = performance.now()
    const stop = await start()
    starts[name].push(performance.now() - from)
    await stop()
  }
}
closeSync(journal)
rmSync(folder, { recursive: true, force: true })

const [floor = 0, , plain = 0, synced = 0, sdkSynced = 0, alone = 0] = calls.map(({ wallMs }) => wallMs / CALLS)
const ratio = calls[2]?.ratio ?? 0
const started = { sdk: quantile(starts.sdk, 0.5), ours: quantile(starts.ours, 0.5) }
const micros = (ms: number | undefined): number => Math.round((ms ?? 0) * 1000)
report('mcp', {
  title: 'MCP servers, supervised',
  text: [
    `A call of a small tool on one stdio server of 2026-07-28, median of 15 rounds of ${CALLS} calls, in turns:`,
    table(
      ['what', 'CPU µs per call', "times the SDK's client", 'wall µs per call'],
      calls.map((call) => [call.name, micros(call.cpuMs / CALLS), round(call.ratio), micros(call.wallMs / CALLS)]),
    ),
    `Goal: at most ${GOAL} times the SDK's client, plus one journal sync. Measured: ${round(ratio)} times by CPU without the sync, ${round(plain / floor)} times by the clock; with the sync a call takes ${micros(synced)} µs, where ${GOAL} times and one sync are ${micros(GOAL * floor + sdkSynced - floor)} µs.`,
    `One sync is what it adds to a call of the SDK's client: ${micros(sdkSynced - floor)} µs. In a loop of syncs alone it takes ${micros(alone)} µs; before a call it costs more, because the server's processor and the caches go cold while the host waits for the disk.`,
    'By the clock a supervised call looks worse on a busy machine than it is: its server has its own session, and Linux shares the processor between sessions.',
    `${SERVERS} servers started in parallel, until all have listed their tools (the servers are shell scripts, which start fast: this measures the host), median of ${STARTS}:`,
    table(
      ['what', 'ms', "times the SDK's client"],
      [
        ["the SDK's client", Math.round(started.sdk), 1],
        ['supervised', Math.round(started.ours), round(started.ours / started.sdk)],
      ],
    ),
    'A supervised start also records the process for the reaper, puts it into its own group and reads its stderr.',
  ].join('\n\n'),
  svg: barPlot(
    "Against the SDK's client",
    [
      { name: 'a call (CPU)', value: ratio },
      { name: `${SERVERS} starts (clock)`, value: started.ours / started.sdk },
    ],
    { goal: GOAL, unit: '×' },
  ),
})
