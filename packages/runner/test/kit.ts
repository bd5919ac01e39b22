/** Shared by the runner's tests: a runner on a fresh folder, in this process or as a program, and raw HTTP to it. */
import { WAIT_MS } from '../../../test/kit/wait.ts'
import { type ChildProcess } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Box, Exec, ExecEvent } from '@breakfall/wire'
import { boxSchema, execSchema } from '@breakfall/wire'
import { type AfterHook, atEnd, tempFolder } from '../../../test/kit/folder.ts'
import { Program } from '../../../test/kit/program.ts'
import { framesOf } from '../../../test/kit/sse.ts'
import { createRunnerClient, type RunnerClient } from '../src/client/index.ts'
import { findProgram } from '../src/isolation/find-program.ts'
import type { RunnerOptions } from '../src/host/options.ts'
import { startRunner } from '../src/server/start.ts'

export type Answer = {
  status: number
  headers: Headers
  text: string
  json: Record<string, unknown> & { category?: string }
}

export class TestRunner {
  readonly url: string
  readonly runnerId: string
  readonly stateDir: string
  readonly token: string
  readonly prefix = 'default'
  readonly client: RunnerClient
  #runs = 0

  constructor(at: { url: string; runnerId: string; stateDir: string; token: string }) {
    this.url = at.url
    this.runnerId = at.runnerId
    this.stateDir = at.stateDir
    this.token = at.token
    // On a busy machine a connection may wait for long before it is accepted.
    this.client = createRunnerClient({ url: at.url, token: at.token, connectMs: WAIT_MS })
  }

  /** Raw HTTP. Objects are sent as JSON; a path without a leading slash is below the prefix. */
  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const response = await fetch(this.url + (path.startsWith('/') ? path : `/v1/${this.prefix}/${path}`), {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined || isRaw ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isRaw ? (body as string) : JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = (response.headers.get('content-type') ?? '').includes('json')
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? (JSON.parse(text) as Answer['json']) : {},
    }
  }

  async box(create: Record<string, unknown> = {}): Promise<Box> {
    const answer = await this.call('POST', 'boxes', create)
    if (answer.status !== 201) throw new Error(answer.text)
    return boxSchema.parse(answer.json)
  }

  /** Starts an exec and follows it to its end in one call. */
  async stream(
    boxId: string,
    request: Record<string, unknown>,
  ): Promise<{ events: ExecEvent[]; stdout: string; stderr: string }> {
    const response = await fetch(`${this.url}/v1/${this.prefix}/boxes/${boxId}/exec`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.token}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: JSON.stringify(request),
    })
    if (!response.ok) throw new Error(await response.text())
    const events = await readEvents(response)
    if (events.at(-1)?.type !== 'exit') throw new Error(`no exit event: ${JSON.stringify(events.at(-1))}`)
    return { events, stdout: bytesOf(events, 'stdout').toString(), stderr: bytesOf(events, 'stderr').toString() }
  }

  /** The same, with the record afterwards. */
  async run(
    boxId: string,
    request: string | Record<string, unknown>,
  ): Promise<{ exec: Exec; events: ExecEvent[]; stdout: string; stderr: string }> {
    const body = typeof request === 'string' ? { shell: request } : request
    const execId = (body['execId'] as string | undefined) ?? `run-${(this.#runs += 1)}`
    const result = await this.stream(boxId, { ...body, execId })
    return { ...result, exec: execSchema.parse((await this.call('GET', `boxes/${boxId}/execs/${execId}`)).json) }
  }

  async events(boxId: string, execId: string, query = ''): Promise<ExecEvent[]> {
    const response = await fetch(`${this.url}/v1/${this.prefix}/boxes/${boxId}/execs/${execId}/events${query}`, {
      headers: { authorization: `Bearer ${this.token}` },
    })
    if (response.status !== 200) throw new Error(await response.text())
    return readEvents(response)
  }
}

export async function readEvents(response: Response): Promise<ExecEvent[]> {
  const events: ExecEvent[] = []
  for await (const { json } of framesOf(response.body ?? [])) events.push(json)
  return events
}

export function bytesOf(events: readonly ExecEvent[], stream: 'stdout' | 'stderr'): Buffer {
  return Buffer.concat(
    events.flatMap((event) => {
      if (event.type !== stream) return []
      return [event.data === undefined ? Buffer.from(event.dataBase64 ?? '', 'base64') : Buffer.from(event.data)]
    }),
  )
}

/** Starts a runner in this process. What it still runs is ended after the test. */
export async function inProcess(
  t: AfterHook,
  options: Partial<RunnerOptions> = {},
): Promise<TestRunner & { close(): Promise<void> }> {
  const stateDir = options.stateDir ?? join(tempFolder(t), 'state')
  const tokenFile = options.tokenFile ?? join(stateDir, 'token')
  mkdirSync(stateDir, { recursive: true })
  const runner = await startRunner({ ...options, stateDir, tokenFile })
  const test = new TestRunner({ url: runner.url, runnerId: runner.runnerId, stateDir, token: firstToken(tokenFile) })
  let closed = false
  const close = async (): Promise<void> => {
    if (closed) return
    closed = true
    await test.client.close()
    await runner.close()
  }
  atEnd(t, async () => {
    if (closed) return
    await removeBoxes(test)
    await close()
  })
  return Object.assign(test, { close })
}

export type RunnerProgram = TestRunner & {
  readonly child: ChildProcess
  readonly exited: Promise<void>
  kill(signal: NodeJS.Signals): Promise<void>
}

/** Starts a runner as a separate process, to be killed. */
export async function asProgram(
  t: AfterHook,
  stateDir: string,
  flags: readonly string[] = [],
  as: { uid?: number; gid?: number } = {},
  inherits: Readonly<Record<number, number>> = {},
  env: Readonly<Record<string, string | undefined>> = process.env,
  through: readonly string[] = [],
): Promise<RunnerProgram> {
  const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
  mkdirSync(stateDir, { recursive: true })
  if (as.uid !== undefined) chownSync(stateDir, as.uid, as.gid ?? as.uid)
  const all = ['--json', '--state-dir', stateDir, '--token-file', join(stateDir, 'token'), ...flags]
  const [first = process.execPath, ...more] = [...through, process.execPath, main, ...all]
  const program = new Program(first, more, { cwd: '/', stderr: 'inherit', inherits, env, ...as })
  const { child } = program
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve())) // with all that writes for it
  const { url, runnerId } = await program.listening()
  const test = new TestRunner({ url, runnerId, stateDir, token: firstToken(join(stateDir, 'token')) })
  const kill = async (signal: NodeJS.Signals): Promise<void> => {
    await test.client.close()
    child.kill(signal)
    await exited
  }
  atEnd(t, async () => {
    if (child.exitCode === null && child.signalCode === null) {
      await removeBoxes(test)
      await kill('SIGTERM')
    }
    removeGroups(runnerId) // a killed runner leaves its groups to the next one, and there may have been none
  })
  return Object.assign(test, { child, exited, kill })
}

/** Removes the groups that are empty. */
function removeGroups(runnerId: string): void {
  for (const group of [...groupsOf(runnerId).toReversed(), ...groupRoots(runnerId)]) {
    try {
      rmdirSync(group)
    } catch {
      // In use, or already gone.
    }
  }
}

/** Keeps keepers from outliving the test. */
async function removeBoxes(test: TestRunner): Promise<void> {
  const { boxes = [] } = (await test.call('GET', 'boxes')).json as { boxes?: Box[] }
  await Promise.all(boxes.map((box) => test.call('DELETE', `boxes/${box.id}`)))
}

const firstToken = (file: string): string => readFileSync(file, 'utf8').trim().split(/\s+/)[0] ?? ''

/** The runner's flags for boxes of a level. */
export const LEVEL_FLAGS = { bwrap: [], process: ['--allow-isolation', 'process', '--isolation', 'process'] } as const

/** A reason to skip, or false. */
export const withoutBwrap: string | false =
  findProgram('bwrap', process.env['PATH'] ?? '') === null && 'bubblewrap is not installed'
export const withoutRoot: string | false = process.getuid?.() !== 0 && 'this needs root'

/** Polls until the condition holds, or fails with the last value. For changes that no event reports. */
export async function until<T>(look: () => Promise<T> | T, holds: (value: T) => boolean, ms = WAIT_MS): Promise<T> {
  const deadline = performance.now() + ms
  for (;;) {
    const value = await look()
    if (holds(value)) return value
    if (performance.now() > deadline)
      throw new Error(`the condition did not hold in time: ${JSON.stringify(value)?.slice(0, 500)}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Processes that carry a runner's mark: its keepers, and at level process what they started. */
export function keepersOf(runnerId: string): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`BREAKFALL_KEEPER=${runnerId}/`)
      } catch {
        return false // exited meanwhile
      }
    })
}

/** The process that copies output for the runner on this folder. */
export function pumpOf(stateDir: string): number {
  const [, pid] = /"pid":(\d+)/.exec(readFileSync(join(stateDir, 'pump.json'), 'utf8')) ?? []
  return Number(pid ?? 0) // 0 while the file is being written
}

/** The peak memory of that process. */
export function peakMb(stateDir: string): number {
  const peak = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pumpOf(stateDir)}/status`, 'utf8'))?.[1]
  return Math.round(Number(peak) / 1024) // NaN, which fails every comparison, if the kernel does not say
}

/** The subgroups of a runner's control groups, in each hierarchy. */
export function groupsOf(runnerId: string): readonly string[] {
  return groupRoots(runnerId).flatMap((root) =>
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name)),
  )
}

/** A runner's own control groups, in each hierarchy. */
export function groupRoots(runnerId: string): readonly string[] {
  return readFileSync('/proc/self/cgroup', 'utf8')
    .trim()
    .split('\n')
    .flatMap((line) => {
      const [, controllers = '', path = ''] = line.split(':')
      const mounts = controllers === '' ? ['unified', ''] : [controllers]
      return mounts.map((mount) => join('/sys/fs/cgroup', mount, path, `breakfall-${runnerId}`))
    })
    .filter((root) => existsSync(root))
}
