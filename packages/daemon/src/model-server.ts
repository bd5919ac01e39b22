/**
 * The model server of the configuration, run as a supervised child. Every attempt at it is a request that the supervisor
 * knows: a crash fails it at once, with the exit and the diagnostics of that boot.
 */
import type { Fault } from '@breakfall/faults'
import { modelCommand, type ServedRequest, serveModel, sweepOrphans } from '@breakfall/supervisor'
import type { ModelConfig } from './options.ts'

/** One attempt at the served model. Its address is that of the current boot: each start chooses a free port. */
export type LocalModelRequest = Omit<ServedRequest, 'url'> & { readonly baseUrl: string }

export type LocalModel = {
  /** Where the current boot answers, or null while none does. */
  readonly baseUrl: string | null
  /** Waits until the server is ready, through restarts. Rejects with a fault if it is given up. */
  request(signal: AbortSignal): Promise<LocalModelRequest>
  stop(): Promise<void>
}

export function startLocalModel(serve: NonNullable<ModelConfig['serve']>, stateDir: string): LocalModel {
  sweepOrphans(stateDir) // a server whose daemon was killed together with the reaper
  const server = serveModel({ ...modelCommand(serve.command), stateDir })
  server.start().catch(() => undefined) // each turn that needs the server reports why there is none
  return {
    get baseUrl() {
      return server.url === null ? null : baseUrlOf(server.url)
    },
    request: async (signal) => {
      const { url, judge, ...request } = await server.request(signal)
      return { ...request, baseUrl: baseUrlOf(url), judge: async (seen) => forTurn(await judge(seen)) }
    },
    stop: async () => void (await server.stop()),
  }
}

// ---- details ----

const baseUrlOf = (url: string): string => `${url}/v1`

/** The supervisor restarts the server. What is left for the turn is to ask again. */
const forTurn = (fault: Fault): Fault => (fault.report.next === 'restart' ? fault.with({ next: 'retry' }) : fault)
