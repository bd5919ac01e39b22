/**
 * The official conformance suite, against the host as the daemon uses it, with somebody who logs in and answers questions. What is
 * required for a revision of the protocol passes as a whole. Extensions run, too, and count for nothing.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { isObject } from '@breakfall/faults/internal'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { httpServer } from '../../../../test/kit/http-server.ts'
import { logIn, McpHost, type McpServer } from '../../src/index.ts'
import { readLogin, writeLogin } from '../../src/login/stored-login.ts'

const REQUIRED = { '2025-11-25': 18, '2026-07-28': 32 } as const

for (const [revision, count] of Object.entries(REQUIRED))
  test(`every scenario that ${revision} requires of a client passes`, { timeout: 240_000 }, async (t) => {
    const folder = tempFolder(t)
    let runs = 0
    await using client = await httpServer((req, res) => {
      runs += 1
      const stateDir = join(folder, `state-${runs}`)
      void text(req)
        .then((body) => play(scenarioOf(JSON.parse(body)), stateDir))
        .then((said) => res.end(said))
    })
    const command = `"${process.execPath}" "${CLIENT}" ${client.url}` // a shell reads it
    const suite = spawn(
      process.execPath,
      [SUITE, 'client', '--command', command, '--requirements', revision, '--timeout', '120000', '-o', folder],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    )
    const output = stripVTControlCharacters(await text(suite.stdout))
    const [, summary = output, unscored = ''] = /=== SUITE SUMMARY ===([^]*?)(?:Not scored([^]*))?$/.exec(output) ?? []
    const results = summary.split('\n').filter((line) => /^[✓✗]/.test(line))
    const isRequired = (line: string): boolean => !unscored.includes(` ${line.slice(2).split(':')[0]} (`)
    const required = results.filter(isRequired)
    assert.deepEqual(
      required.filter((line) => !line.startsWith('✓')),
      [],
      output.slice(-4_000),
    )
    assert.equal(required.length, count)
  })

// ---- details ----

const SUITE = fileURLToPath(
  new URL('../../../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)
const CLIENT = fileURLToPath(new URL('../programs/conformance-client.mjs', import.meta.url))
const LOGINS_MAX = 3
const NEVER = new AbortController().signal

type Scenario = { readonly url: string; readonly name: string; readonly context: Readonly<Record<string, unknown>> }

function scenarioOf(sent: unknown): Scenario {
  assert.ok(isObject(sent) && isObject(sent['context']))
  return { url: String(sent['url']), name: String(sent['scenario']), context: sent['context'] }
}

/** Returns what happened, for the suite's files. */
async function play({ url, name, context }: Scenario, stateDir: string): Promise<string> {
  const said: string[] = []
  const host = new McpHost({ stateDir, canAsk: true })
  try {
    for (let logins = 0; logins <= LOGINS_MAX; logins += 1) {
      host.configure({ s: { url, awayMs: 5_000, login: `login ${logins}` } })
      const [server] = host.servers
      if (server === undefined || !(await callsNeedLogin(server, context, said))) break
      const before = readLogin(stateDir, 's', url)
      const client = clientFor(name, context)
      writeLogin(stateDir, 's', await logIn({ name: 's', url, before, ...client, signal: NEVER, onPage: visit }))
    }
  } catch (thrown) {
    said.push(String(thrown)) // what the suite saw says whether that is right
  } finally {
    await host.stop()
  }
  return `${said.join('\n')}\n`
}

/** Calls every tool once. True if somebody has to log in first. */
async function callsNeedLogin(server: McpServer, context: Scenario['context'], said: string[]): Promise<boolean> {
  await server.settled(AbortSignal.timeout(60_000))
  if (server.fault !== null) said.push(server.fault.error)
  if (server.fault !== null) return server.fault.category === 'mcp_auth_failed'
  const calls: readonly unknown[] = Array.isArray(context['toolCalls']) ? context['toolCalls'] : []
  for (const { name, tool, inputSchema } of server.tools) {
    const wanted = calls.find((call) => isObject(call) && call['name'] === tool)
    const args = isObject(wanted) && isObject(wanted['arguments']) ? wanted['arguments'] : argumentsFor(inputSchema)
    const onQuestion = async () => ({ action: 'accept', content: {} }) as const
    const end = await server.call({ tool: name, arguments: args, key: name }, { signal: NEVER, onQuestion })
    said.push(`${name}: ${JSON.stringify(end)}`)
    if (end.kind === 'refused' && end.fault.category === 'mcp_auth_failed') return true
  }
  return false
}

function clientFor(
  scenario: string,
  context: Scenario['context'],
): { readonly clientId?: string; readonly clientSecret?: string } {
  if (scenario === 'auth/basic-cimd') return { clientId: 'https://conformance-test.local/client-metadata.json' }
  const { client_id: clientId, client_secret: clientSecret } = context
  return typeof clientId === 'string' && typeof clientSecret === 'string' ? { clientId, clientSecret } : {}
}

/** As a browser does it for somebody who agrees. */
function visit(page: URL): void {
  void fetch(page).then((response) => response.body?.cancel())
}

function argumentsFor({ properties }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if (!isObject(properties)) return {}
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, valueFor(schema)]))
}

function valueFor(schema: unknown): unknown {
  if (!isObject(schema)) return null
  if ('const' in schema) return schema['const']
  if (Array.isArray(schema['enum'])) return schema['enum'][0]
  if (schema['type'] === 'number' || schema['type'] === 'integer') return 1
  if (schema['type'] === 'boolean') return true
  if (schema['type'] === 'array') return []
  return schema['type'] === 'object' ? argumentsFor(schema) : 'text'
}
