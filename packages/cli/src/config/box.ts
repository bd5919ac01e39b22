/** What runs add to their boxes: variables, folders, the network, the kind of home folder. */
import { resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Env } from './env.ts'
import { homeFolder } from './paths.ts'
import type { Config } from './schema.ts'

export type BoxMountSetting = { readonly path: string; readonly mode: 'ro' | 'rw' }

export type BoxSetting = {
  /** With the values of `passEnv`. */
  readonly env: Readonly<Record<string, string>>
  /** Names in `passEnv` that are not set. */
  readonly unset: readonly string[]
  readonly mounts: readonly BoxMountSetting[]
  readonly network: 'none' | 'host' | undefined
  readonly home: 'real' | 'private' | undefined
}

export function resolveBox({ box = {} }: Config, env: Env): BoxSetting {
  const { passEnv = [], mounts = [], network, home } = box
  const passed = passEnv.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]] as const]))
  return {
    env: { ...Object.fromEntries(passed), ...box.env },
    unset: passEnv.filter((name) => env[name] === undefined),
    mounts: mounts.map((text) => mountOf(text, env)),
    network,
    home,
  }
}

/** `DIR`, `DIR:ro` or `DIR:rw`; `~` is the home folder. Pure. */
export function mountOf(text: string, env: Env): BoxMountSetting {
  const [, named = text, mode] = /^(.*):(ro|rw)$/s.exec(text) ?? []
  if (named === '') throw new Fault('invalid_request', { error: `A mount is DIR or DIR:rw, got "${text}"` })
  const path = /^~(?:\/|$)/.test(named) ? `${homeFolder(env) ?? ''}${named.slice(1)}` : named
  return { path: resolve(path), mode: mode === 'rw' ? 'rw' : 'ro' }
}

/** `K=V`. Pure. */
export function variableOf(text: string): readonly [name: string, value: string] {
  const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/s.exec(text) ?? []
  if (name === undefined || value === undefined)
    throw new Fault('invalid_request', { error: `--env takes NAME=VALUE, got "${text.split('=')[0] ?? ''}"` })
  return [name, value]
}
