/** Exec requests with their defaults filled in, and the hash that identifies "the same body". */
import { createHash } from 'node:crypto'
import { EXEC_DEFAULTS, type ExecRequest } from '@breakfall/wire'
import { sorted } from '@breakfall/faults/internal'

export type FilledRequest = {
  readonly command?: readonly string[] | undefined
  readonly shell?: string | undefined
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: 'none' | 'pipe'
  /** Undefined: none. */
  readonly timeoutMs?: number | undefined
  readonly killGraceMs: number
  readonly merge: boolean
  readonly outputBytesMax: number
  readonly background?: BackgroundRequest | undefined
}

export type BackgroundRequest = Exclude<NonNullable<ExecRequest['background']>, true>

export function fillRequest(request: ExecRequest): FilledRequest {
  const { command, shell, background } = request
  const timeoutMs = request.timeoutMs ?? (background === undefined ? EXEC_DEFAULTS.timeoutMs : undefined)
  return {
    ...(command === undefined ? {} : { command }),
    ...(shell === undefined ? {} : { shell }),
    cwd: request.cwd ?? EXEC_DEFAULTS.cwd,
    env: request.env ?? {},
    stdin: request.stdin ?? EXEC_DEFAULTS.stdin,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    killGraceMs: request.killGraceMs ?? EXEC_DEFAULTS.killGraceMs,
    merge: request.merge ?? EXEC_DEFAULTS.merge,
    outputBytesMax: request.outputBytesMax ?? EXEC_DEFAULTS.outputBytesMax,
    ...(background === undefined ? {} : { background: background === true ? {} : background }),
  }
}

/** The same request again, under another id. */
export function toRequest({ command, ...filled }: FilledRequest, execId: string): ExecRequest {
  return { ...filled, ...(command === undefined ? {} : { command: [...command] }), env: { ...filled.env }, execId }
}

export function requestHash(request: FilledRequest): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(request)))
    .digest('hex')
}

export function commandOfRequest(request: Pick<FilledRequest, 'command' | 'shell'>): readonly string[] {
  return request.command ?? ['sh', '-c', request.shell ?? '']
}
