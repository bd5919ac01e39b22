/**
 * `npm run mcp:real [PART-OF-A-NAME…]`: real servers from npm are started, listed, called, killed in the middle of a call and called
 * again. Fetches them into a temporary folder, one after another. The whole list writes the report.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isObject } from '@breakfall/faults/internal'
import { type CallEnd, McpHost, type McpServer, type McpTool } from '@breakfall/mcp'
import { report, table } from '../kit.ts'
import { type RealServer, SERVERS } from './servers.ts'

const LEAVE_MS = 3_000 // a helper that a server has put into another session ends once it notices

let calls = 0
const wanted = process.argv.slice(2)
const chosen = SERVERS.filter((server) => wanted.length === 0 || wanted.some((part) => server.package.includes(part)))
const folder = mkdtempSync(join(tmpdir(), 'breakfall-mcp-real-'))
const rows: (readonly (string | number)[])[] = []
try {
  for (const server of chosen) {
    const row = await tried(server).catch((thrown: unknown) => [String(thrown).slice(0, 120)])
    rows.push([server.package, server.version, ...row])
    process.stdout.write(`${rows.at(-1)?.join(' | ')}\n`)
  }
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}
const text = [
  'Real MCP servers from npm over stdio, on a machine without their networks. Each is listed, called once, stopped and killed with a call in its input, and called again when it is back.',
  table(
    [
      'server',
      'version',
      'protocol',
      'tools',
      'call',
      'call, server killed',
      'ready again, ms',
      'same tools',
      'next call',
      'processes left',
    ],
    rows,
  ),
].join('\n\n')
if (wanted.length === 0) report('mcp-real', { title: 'Real MCP servers', text, command: 'npm run mcp:real' })

// ---- details ----

async function tried(server: RealServer): Promise<readonly (string | number)[]> {
  const home = join(folder, server.package.replace(/\W/g, '_'))
  const program = install(server, home)
  const host = new McpHost({ stateDir: join(home, 'state') })
  const env = { HOME: home, ...server.env } // it writes outside the user's folders
  host.configure({ s: { command: process.execPath, args: [program, ...(server.args ?? [])], env, callMs: 60_000 } })
  const [supervised] = host.servers
  try {
    if (supervised === undefined) return ['none']
    await supervised.started(AbortSignal.timeout(120_000))
    if (supervised.fault !== null) return [supervised.fault.error]
    const before = definitions(supervised)
    const tool = harmless(supervised.tools)
    if (tool === undefined) return ['offers no tool']
    const first = await call(supervised, tool)
    for (const pid of running(home)) process.kill(pid, 'SIGSTOP') // the call stays in its input
    const cut = call(supervised, tool)
    await new Promise((resolve) => setTimeout(resolve, 100))
    const from = performance.now()
    for (const pid of running(home)) process.kill(pid, 'SIGKILL')
    const lost = await cut
    await supervised.started(AbortSignal.timeout(120_000))
    const readyMs = Math.round(performance.now() - from)
    const isSame = definitions(supervised) === before
    const next = await call(supervised, tool)
    const { era } = supervised.status
    await host.stop()
    const until = performance.now() + LEAVE_MS
    while (running(home).length > 0 && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 50))
    return [
      era ?? '-',
      before.split(' ').length,
      said(first),
      said(lost),
      readyMs,
      isSame ? 'yes' : 'no',
      said(next),
      running(home).length,
    ]
  } finally {
    await host.stop()
  }
}

/** Returns its program. Scripts of packages are not run: they download browsers. */
function install({ package: name, version }: RealServer, home: string): string {
  mkdirSync(home, { recursive: true })
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', '--prefix', home]
  execFileSync('npm', ['install', ...flags, `${name}@${version}`], { stdio: ['ignore', 'ignore', 'inherit'] })
  const root = join(home, 'node_modules', name)
  const manifest: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const bin = isObject(manifest) ? manifest['bin'] : undefined
  const program = isObject(bin) ? Object.values(bin)[0] : bin
  if (typeof program !== 'string') throw new Error('it has no program')
  return join(root, program)
}

function definitions(server: McpServer): string {
  return server.tools.map(({ hash }) => hash).join(' ')
}

/** A tool without required arguments, preferably a read-only one. */
function harmless(tools: readonly McpTool[]): McpTool | undefined {
  const needsNothing = ({ inputSchema: { required } }: McpTool): boolean =>
    !Array.isArray(required) || required.length === 0
  const easy = tools.filter(needsNothing)
  return easy.find(({ isReadOnly }) => isReadOnly) ?? tools.find(({ isReadOnly }) => isReadOnly) ?? easy[0] ?? tools[0]
}

function call(server: McpServer, { name, inputSchema: { properties, required } }: McpTool): Promise<CallEnd> {
  const names: readonly unknown[] = Array.isArray(required) ? required : []
  const schemas = isObject(properties) ? properties : {}
  const given = Object.fromEntries(names.map((key) => [String(key), valueFor(schemas[String(key)])]))
  calls += 1
  return server.call({ tool: name, arguments: given, key: `k${calls}` }, { signal: AbortSignal.timeout(90_000) })
}

function valueFor(schema: unknown): unknown {
  const { type, enum: values } = isObject(schema) ? schema : {}
  if (Array.isArray(values)) return values[0]
  return type === 'number' || type === 'integer'
    ? 1
    : type === 'boolean'
      ? false
      : type === 'array'
        ? []
        : type === 'object'
          ? {}
          : 'x'
}

function said(end: CallEnd): string {
  return end.kind === 'answered' && end.isError ? 'answered (an error)' : end.kind
}

/** Processes of this server: its home is in their environment, whatever they call themselves. */
function running(home: string): readonly number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && environment(pid).includes(home))
}

function environment(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch {
    return '' // it has ended, or belongs to another user
  }
}
