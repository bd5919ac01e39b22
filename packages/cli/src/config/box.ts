/** What runs add to their boxes: variables, folders, the network, the kind of home folder. */
import { resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
import { type CheckpointMode, type Network, NETWORK_PRESETS } from '@breakfall/wire'
import { type Environment, homeFolder } from '@breakfall/supervisor/platform'
import type { Config } from './schema.ts'

export type BoxMountSetting = { readonly path: string; readonly mode: 'ro' | 'rw' }

export type BoxSetting = {
  /** With the values of `passEnv`. */
  readonly env: Readonly<Record<string, string>>
  /** Names in `passEnv` that are not set. */
  readonly unset: readonly string[]
  readonly mounts: readonly BoxMountSetting[]
  readonly network: Network | undefined
  readonly home: 'real' | 'private' | undefined
  /** For undo. */
  readonly checkpoints: CheckpointMode
}

export function resolveBox({ box = {} }: Config, env: Environment): BoxSetting {
  const { passEnv = [], mounts = [], network, home, checkpoints = 'auto' } = box
  const passed = passEnv.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]] as const]))
  return {
    env: { ...Object.fromEntries(passed), ...box.env },
    unset: passEnv.filter((name) => env[name] === undefined),
    mounts: mounts.map((text) => mountOf(text, env)),
    network: network === undefined ? undefined : networkOf(network),
    home,
    checkpoints,
  }
}

/** `none`, `host`, or names and presets: `npm,packages.example.org`. Pure; the runner checks the names. */
export function networkOf(value: string | readonly string[]): Network {
  if (value === 'none' || value === 'host') return value
  const names = typeof value === 'string' ? value.split(',') : value
  const isPreset = (name: string): boolean => NETWORK_PRESETS.some((preset) => preset === name)
  const allow = names.map((name) => name.trim()).filter((name) => name !== '')
  const odd = allow.find((name) => !isPreset(name) && !/[.:*]/.test(name)) // a misspelt preset, not a domain name
  if (odd !== undefined)
    throw new Fault('invalid_request', {
      error: `The network is none, host, or names like example.org and ${NETWORK_PRESETS.join(', ')}; got "${odd}"`,
    })
  return { allow: allow.map((name) => (isPreset(name) ? `preset:${name}` : name)) }
}

/** `DIR`, `DIR:ro` or `DIR:rw`; `~` is the home folder. Pure. */
export function mountOf(text: string, env: Environment): BoxMountSetting {
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
