/**
 * Asks for the runner's current address: a command that prints it, or a URL that returns it, as `{"url":"…"}` or a bare URL. A
 * failing resolver means that the runner is unreachable: the same category, with a phase and a message that name the resolver.
 */
import { spawn } from 'node:child_process'
import { describeCause, Fault, redactStart } from '@breakfall/faults'
import { addressIn } from '@breakfall/wire/internal'
import type { RunnerConfig } from '../options.ts'

const RESOLVE_MS = 10_000
const ANSWER_BYTES_MAX = 64 * 1024

/** The runner's URL, or undefined if no resolver is configured. */
export async function resolveUrl(config: RunnerConfig, signal: AbortSignal): Promise<string | undefined> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(RESOLVE_MS)])
  if (config.resolveCommand !== undefined) return urlIn(await commandOutput(config.resolveCommand, limited), 'command')
  if (config.resolveUrl !== undefined) return urlIn(await fetched(config.resolveUrl, limited), 'URL')
  return undefined
}

// ---- details ----

function urlIn(answer: string, kind: string): string {
  const url = addressIn(answer)
  if (url !== undefined) return url
  throw resolverFault(`the runner's resolver ${kind}`, `answered no URL: ${redactStart(answer.trim(), 200)}`)
}

function commandOutput(command: readonly string[], signal: AbortSignal): Promise<string> {
  const [program = '', ...args] = command
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' })
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk: Buffer) => {
      if (out.length < ANSWER_BYTES_MAX) out += chunk.toString()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      if (err.length < ANSWER_BYTES_MAX) err += chunk.toString()
    })
    child.on('error', (cause) => reject(resolverFault("the runner's resolver command", describeCause(cause), cause)))
    child.on('close', (code) => {
      if (code === 0) resolve(out)
      else reject(resolverFault("the runner's resolver command", `ended with code ${code}: ${redactStart(err, 500)}`))
    })
  })
}

async function fetched(url: string, signal: AbortSignal): Promise<string> {
  try {
    const response = await fetch(url, { signal, redirect: 'error' })
    const text = (await response.text()).slice(0, ANSWER_BYTES_MAX)
    if (response.ok) return text
    throw new Error(`HTTP ${response.status} ${redactStart(text, 200)}`)
  } catch (cause) {
    throw resolverFault("the runner's resolver URL", describeCause(cause), cause)
  }
}

function resolverFault(name: string, detail: string, cause?: unknown): Fault {
  return new Fault('runner_unreachable', {
    phase: 'resolve',
    message: {
      happened: `${name} does not say where the runner is (${detail}).`,
      action: '',
      advice: "Check it, or set the runner's url.",
    },
    errorRaw: detail,
    ...(cause === undefined ? {} : { cause }),
  })
}
