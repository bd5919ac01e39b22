/** `breakfall mcp import FILE`: adds the servers of a common `mcpServers` JSON file to your configuration. */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import { isObject, messageOf } from '@breakfall/faults/internal'
import { stringify } from 'smol-toml'
import type { Context } from '../../command-line/context.ts'
import { userConfigFile } from '../../config/paths.ts'

export function mcpImport({ config, out }: Context, file: string): void {
  const { tables, notes } = importedServers(parsedFile(file), Object.keys(config.outside.mcp))
  const names = Object.keys(tables)
  if (names.length > 0) {
    const target = userConfigFile(process.env)
    mkdirSync(dirname(target), { recursive: true, mode: 0o700 })
    appendFileSync(target, `\n${stringify({ mcp: tables })}`, { mode: 0o600 })
    out.say(`added to ${target}`)
  }
  if (out.json) return out.result({ outcome: 'finished', servers: names, notes })
  for (const name of names) out.line(`[mcp.${name}]`)
  for (const note of notes) out.say(note)
}

export type Imported = {
  readonly tables: Readonly<Record<string, Record<string, unknown>>>
  /** What was left out, and what is left to do. */
  readonly notes: readonly string[]
}

/** Pure. */
export function importedServers(json: unknown, known: readonly string[]): Imported {
  const listed = isObject(json) ? (json['mcpServers'] ?? json['servers'] ?? json) : undefined
  if (!isObject(listed)) throw new Fault('invalid_request', { error: 'The file has no table "mcpServers"' })
  const tables: Record<string, Record<string, unknown>> = {}
  const notes: string[] = []
  for (const [key, server] of Object.entries(listed)) {
    const name = serverName(key)
    if (known.includes(name) || Object.hasOwn(tables, name))
      notes.push(`${name} is configured already, so it was left out`)
    else if (!isObject(server)) notes.push(`${key} is not a table, so it was left out`)
    else if (server['disabled'] === true) notes.push(`${name} is disabled there, so it was left out`)
    else if (server['type'] === 'sse')
      notes.push(`${name} uses the SSE transport of 2024, which Breakfall does not speak`)
    else if (typeof server['command'] === 'string') tables[name] = local(server, server['command'])
    else if (typeof server['url'] === 'string') tables[name] = remote(name, server, server['url'], notes)
    else notes.push(`${name} has neither a command nor a URL, so it was left out`)
  }
  return { tables, notes }
}

// ---- details ----

function parsedFile(file: string): unknown {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return parsed
  } catch (thrown) {
    const why = messageOf(thrown)
    throw new Fault('invalid_request', { error: `Cannot read ${file}: ${why}`, cause: thrown })
  }
}

const serverName = (key: string): string =>
  key
    .replace(/[^A-Za-z0-9-]+/g, '-')
    .replace(/^[^A-Za-z]+|-+$/g, '')
    .slice(0, 32) || 'server'

function local(server: Record<string, unknown>, command: string): Record<string, unknown> {
  const { args, env, cwd } = server
  return {
    command,
    ...(Array.isArray(args) ? { args: args.map(String) } : {}),
    ...(isObject(env) ? { env: texts(env) } : {}),
    ...(typeof cwd === 'string' ? { cwd } : {}),
  }
}

/** A header's value is a secret, and a config file is not the place for one: it names the variable instead. */
function remote(name: string, server: Record<string, unknown>, url: string, notes: string[]): Record<string, unknown> {
  const headers = isObject(server['headers']) ? texts(server['headers']) : {}
  const variables = Object.entries(headers).map(([header, value]) => {
    const [, variable = `${name}_${header}`.replace(/\W/g, '_').toUpperCase()] =
      /^\$\{(?:env:)?([A-Za-z_]\w*)\}$/.exec(value) ?? []
    if (!value.startsWith('${'))
      notes.push(`${name}: put the value of its header ${header} into the variable ${variable}`)
    return [header, variable] as const
  })
  return { url, ...(variables.length === 0 ? {} : { headersEnv: Object.fromEntries(variables) }) }
}

const texts = (table: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(Object.entries(table).map(([key, value]) => [key, String(value)]))
