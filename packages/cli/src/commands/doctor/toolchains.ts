/** The doctor's check of toolchains: runs every toolchain on the PATH in a box, as a command of the model would run. */
import { execFile } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { isFault } from '@breakfall/faults'
import { startRunner } from '@breakfall/runner'
import { createRunnerClient, type RunnerClient } from '@breakfall/runner/client'
import { RUNTIME_PROGRAMS } from '@breakfall/runner/internal'
import type { Box } from '@breakfall/wire'
import { isMissing, mountText } from '../../config/allowed-folders.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { readToken } from '../../daemon/find.ts'
import { shortened } from '../../text/table.ts'
import type { Finding } from './finding.ts'

/** Checks nothing without a sandbox, or if the runner is on another machine. */
export async function checkToolchains(config: ResolvedConfig): Promise<readonly Finding[]> {
  const path = config.childEnv['PATH'] ?? ''
  const tools = RUNTIME_PROGRAMS.flatMap((command) => {
    const file = onPath(command[0], path)
    return file === undefined ? [] : [{ command, file }]
  })
  if (config.runner.kind === 'remote' || tools.length === 0) return []
  try {
    return await inBox(config, (client, box) => Promise.all(tools.map((tool) => tryTool(client, box, tool, config))))
  } catch (error) {
    const found = `toolchains cannot be tried: ${isFault(error) ? error.error : String(error)}`
    return [
      { check: 'tools', verdict: 'warn', found, fix: 'correct [box] in your config.toml, or set TMPDIR to a folder' },
    ]
  }
}

type Outcome =
  | { readonly version: string; readonly why?: undefined }
  | { readonly version?: undefined; readonly why: string }

/** The version in the line that names the program, else in the first line with one. A JVM's log lines (`[0.001s][warning]…`) have none. Pure. */
export function versionIn(text: string, program: string): string {
  const names = program === 'mvn' ? 'maven' : program.replace(/3$/, '')
  const lines = text.split('\n').filter((line) => VERSION.test(line) && !/^\s*\[\d+\.\d+s\]/.test(line))
  const line = lines.find((one) => one.toLowerCase().includes(names)) ?? lines[0] ?? ''
  return VERSION.exec(line)?.[0] ?? ''
}

/** What the sandbox of this machine lacks, as a private runner reports it. */
export function missingCapabilities(config: unknown): readonly Finding[] {
  const isolation = fieldOf(config, 'isolation')
  const lacks = fieldOf(isolation, 'lacks')
  if (!Array.isArray(lacks)) return []
  return lacks.map((lack: unknown) => ({
    check: 'sandbox',
    verdict: 'warn',
    found: `no ${textField(lack, 'name')}: ${textField(lack, 'because')}`,
    fix: textField(lack, 'fix'),
  }))
}

// ---- details, in the order they are used above ----

const TOOL_MS = 15_000

type Tool = { readonly command: readonly [name: string, ...args: string[]]; readonly file: string }

type Tried = { readonly works: string } | { readonly problem: Finding }

function onPath(name: string, path: string): string | undefined {
  return path
    .split(delimiter)
    .filter((folder) => folder.startsWith('/'))
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK)
        return true
      } catch {
        return false // not in this folder
      }
    })
}

/** A box as a run would make it, in a private runner that leaves nothing behind. */
async function inBox(
  { childEnv, box: { env, mounts: named, home, network } }: ResolvedConfig,
  check: (client: RunnerClient, box: Box) => Promise<readonly Tried[]>,
): Promise<readonly Finding[]> {
  const mounts = named.filter((mount) => !isMissing(mount)) // the check of mounts reports the others
  const stateDir = mkdtempSync(join(tmpdir(), 'breakfall-doctor-'))
  try {
    const tokenFile = join(stateDir, 'token')
    const runner = await startRunner({ stateDir, tokenFile, environment: childEnv, allowMount: mounts.map(mountText) })
    const client = createRunnerClient({ url: runner.url, token: readToken(tokenFile) })
    try {
      if (runner.isolation.level !== 'bwrap') return [] // the check of the sandbox says why
      const lacks = missingCapabilities(await client.config())
      const box = await client.createBox({ env: { ...env }, mounts: [...mounts], home, network })
      const tried = await check(client, box)
      await client.removeBox(box.id)
      return [...lacks, ...toolFindings(tried, box)]
    } finally {
      await client.close()
      await runner.close()
    }
  } finally {
    rmSync(stateDir, { recursive: true, force: true, maxRetries: 5 })
  }
}

function toolFindings(tried: readonly Tried[], { home }: Box): readonly Finding[] {
  const works = tried.flatMap((one) => ('works' in one ? [one.works] : []))
  const where = home === undefined ? '' : `, HOME ${home.path}`
  return [
    { check: 'tools', verdict: 'ok', found: `in a box${where}: ${works.join(', ') || 'none'}` },
    ...tried.flatMap((one) => ('problem' in one ? [one.problem] : [])),
  ]
}

async function tryTool(client: RunnerClient, box: Box, tool: Tool, { childEnv }: ResolvedConfig): Promise<Tried> {
  const [name] = tool.command
  const outcome = await runInBox(client, box, tool)
  if (outcome.version !== undefined) return { works: `${name} ${outcome.version}`.trim() }
  const outside = await problemOutside(tool, childEnv)
  const isBroken = outside !== undefined
  const found = isBroken
    ? `${name} (${tool.file}) fails in a box and outside it; outside: ${outside}`
    : `${name} (${tool.file}) does not work in a box: ${outcome.why}`
  const fix = isBroken
    ? `repair ${name} first`
    : 'add the folder that it needs with [box] mounts, or a variable with [box] passEnv'
  return { problem: { check: 'tools', verdict: 'warn', found, fix } }
}

const VERSION = /\d+(?:\.\d+)+/

async function runInBox(client: RunnerClient, box: Box, { command, file }: Tool): Promise<Outcome> {
  try {
    const { execId } = await client.startExec(box.id, { command: [...command], timeoutMs: TOOL_MS, merge: true })
    let text = ''
    for await (const event of client.execEvents(box.id, execId)) {
      if (event.type === 'stdout') text = (text + (event.data ?? '')).slice(-8_000)
      if (event.type !== 'exit') continue
      if (event.cause === 'exited' && event.code === 0) return { version: versionIn(text, command[0]) }
      return { why: failureText(event.cause === 'timed_out' ? TIMED_OUT : `exit code ${event.code}`, text) }
    }
    return { why: 'it did not end' }
  } catch (error) {
    const hidden = box.home?.left.find(({ path }) => path === dirname(file))
    if (hidden !== undefined) return { why: `the box cannot see ${hidden.path}, because ${hidden.because}` }
    return { why: isFault(error) ? error.error : String(error) }
  }
}

const TIMED_OUT = `no answer within ${TOOL_MS / 1000} s`

/** How it failed, and the line that explains it best. */
function failureText(how: string, text: string): string {
  const lines = text.trim().split('\n')
  const line = (lines.find((one) => /error|exception|not found|no such/i.test(one)) ?? lines.at(-1))?.trim() ?? ''
  return line === '' ? how : `${how}: ${shortened(line, 200)}`
}

/** Undefined if it works. */
function problemOutside(
  { file, command: [, ...args] }: Tool,
  env: ResolvedConfig['childEnv'],
): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(file, args, { timeout: TOOL_MS, env: { ...env }, cwd: '/' }, (error, stdout, stderr) => {
      if (error === null) return resolve(undefined)
      resolve(failureText(error.killed === true ? TIMED_OUT : `exit code ${error.code ?? '?'}`, `${stdout}\n${stderr}`))
    })
  })
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([key]) => key === name)?.[1]
    : undefined
}

function textField(value: unknown, name: string): string {
  const field = fieldOf(value, name)
  return typeof field === 'string' ? field : ''
}
