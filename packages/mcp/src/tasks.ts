/**
 * Follows a task that a server runs in place of an answer, until it ends. The task outlives the connection and this process: a
 * lost connection is not the end of it.
 */
import { Fault, isFault, sleep } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import type { CallEnd } from './call-end.ts'
import { systemNow } from './clock.ts'
import { MCP_LIMITS } from './config.ts'
import type { Connection } from './connection.ts'
import { isToolResult, textOf } from './content.ts'
import type { TaskHandle } from './tap.ts'

export type TaskOptions = {
  readonly name: string
  readonly signal: AbortSignal
  /** A connection to the server, through restarts. Rejects with a fault if there will be none. */
  readonly connected: (signal: AbortSignal) => Promise<Connection>
  readonly totalMs: number
}

export async function followTask(task: TaskHandle, options: TaskOptions): Promise<CallEnd> {
  const { name, signal } = options
  const until = systemNow() + options.totalMs
  let pollMs = task.pollMs ?? MCP_LIMITS.pollMs
  while (systemNow() < until) {
    if (signal.aborted) return cancelTask(task, options)
    let seen: unknown
    try {
      const connection = await options.connected(signal)
      seen = await connection.exchange(
        'tasks/get',
        { taskId: task.taskId },
        AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
      )
      const end = await endOfTask(connection, task, seen, signal)
      if (end !== undefined) return end
    } catch (thrown) {
      if (signal.aborted) return cancelTask(task, options)
      if (isUnknownTask(thrown))
        return { kind: 'lost', fault: lostTask(name, 'it does not know the task any more', thrown) }
      if (isFault(thrown)) return { kind: 'lost', fault: lostTask(name, thrown.error, thrown) }
      // The connection broke: the task goes on without it.
    }
    if (isObject(seen) && typeof seen['pollIntervalMs'] === 'number') pollMs = seen['pollIntervalMs']
    await sleep(Math.min(MCP_LIMITS.pollMsMax, Math.max(50, pollMs)), signal)
  }
  return { kind: 'lost', fault: lostTask(name, 'its task did not end in time', undefined) }
}

// ---- details ----

const REQUEST_MS = 30_000
const CANCEL_MS = 2_000

async function endOfTask(
  connection: Connection,
  { taskId }: TaskHandle,
  seen: unknown,
  signal: AbortSignal,
): Promise<CallEnd | undefined> {
  const state = isObject(seen) && isObject(seen['task']) ? seen['task'] : seen
  if (!isObject(state)) return undefined
  const { status, statusMessage } = state
  const why = typeof statusMessage === 'string' && statusMessage !== '' ? `: ${statusMessage.slice(0, 1_000)}` : '.'
  switch (status) {
    case 'completed': {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)])
      const result = state['result'] ?? (await connection.exchange('tasks/result', { taskId }, limit))
      return resultEnd(result)
    }
    case 'failed': {
      const error = isObject(state['error']) ? state['error']['message'] : undefined
      const text = typeof error === 'string' ? `: ${error.slice(0, 1_000)}` : why
      return { kind: 'answered', isError: true, text: `The task failed${text}` }
    }
    case 'cancelled':
      return { kind: 'answered', isError: true, text: `The server cancelled the task${why}` }
    case 'input_required':
      return { kind: 'answered', isError: true, text: 'The task asks for input, which Breakfall cannot give.' }
    default:
      return undefined
  }
}

function resultEnd(result: unknown): CallEnd {
  if (isToolResult(result)) return { kind: 'answered', ...textOf(result) }
  return { kind: 'answered', isError: true, text: 'The task is complete, but its result cannot be used.' }
}

/** Best effort: a server may ignore it. */
async function cancelTask({ taskId }: TaskHandle, { connected }: TaskOptions): Promise<CallEnd> {
  try {
    const limit = AbortSignal.timeout(CANCEL_MS)
    const connection = await connected(limit)
    await connection.exchange('tasks/cancel', { taskId }, limit)
  } catch {
    // It cannot be reached, or the task is over.
  }
  return { kind: 'cancelled' }
}

/** JSON-RPC: invalid params, or the code for a missing resource. */
const isUnknownTask = (thrown: unknown): boolean =>
  thrown instanceof Error && 'code' in thrown && (thrown.code === -32_602 || thrown.code === -32_002)

const lostTask = (name: string, detail: string, cause: unknown): Fault =>
  new Fault('mcp_server_failed', { cause, sideEffects: 'unknown', facts: { name, detail } })
