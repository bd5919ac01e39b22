/** Where the runner is: on this machine, started when it is needed, or elsewhere. */
import { existsSync } from 'node:fs'
import type { Config } from './schema.ts'

type Isolation = 'bwrap' | 'process'

export type RunnerSetting =
  | {
      readonly kind: 'local'
      readonly isolation: Isolation | undefined
      /** Folders that boxes may use, besides those that runs were started in. */
      readonly allowWorkspace: readonly string[]
      /** Boxes that may run at once. */
      readonly boxesMax: number | undefined
    }
  | {
      readonly kind: 'remote'
      /** Undefined: only the resolver knows. */
      readonly url: string | undefined
      readonly tokenFile: string | undefined
      readonly resolver: RunnerResolver | undefined
      readonly isolation: Isolation | undefined
      readonly allowWorkspace: readonly string[]
      /** Boxes that may run at once. */
      readonly boxesMax: number | undefined
    }

/** Looks up the runner's address again when it cannot be reached. */
export type RunnerResolver =
  | { readonly kind: 'command'; readonly command: readonly string[] }
  | { readonly kind: 'url'; readonly url: string }

export function resolveRunner({ runner = {}, remote_runner }: Config): RunnerSetting {
  const url = runner.url ?? remote_runner?.endpoint
  const resolver = resolverOf(runner)
  const { isolation, tokenFile, allowWorkspace = [], boxesMax } = runner
  if (url === undefined && resolver === undefined) return { kind: 'local', isolation, allowWorkspace, boxesMax }
  return { kind: 'remote', url, tokenFile, resolver, isolation, allowWorkspace, boxesMax }
}

/** A missing token file is most likely a typo, which otherwise only the first tool call would show. */
export function runnerWarnings(runner: RunnerSetting): readonly string[] {
  if (runner.kind === 'local' || runner.tokenFile === undefined || existsSync(runner.tokenFile)) return []
  return [
    `[runner] tokenFile names ${runner.tokenFile}, but there is no such file: the runner will reject every tool call`,
  ]
}

// ---- details ----

function resolverOf({ resolveCommand, resolveUrl }: NonNullable<Config['runner']>): RunnerResolver | undefined {
  if (resolveCommand !== undefined) return { kind: 'command', command: resolveCommand }
  return resolveUrl === undefined ? undefined : { kind: 'url', url: resolveUrl }
}
