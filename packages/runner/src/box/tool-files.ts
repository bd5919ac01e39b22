/** Files at the top of a folder that programs of its owner act on by themselves, but that a box may write because agents need to. */
import { lstatSync } from 'node:fs'
import type { OpenFolder } from '../files/walk.ts'

export const TOOL_FILES = [
  '.bazelrc',
  '.cargo/config.toml',
  '.claude/settings.json',
  '.claude/settings.local.json',
  '.codex/config.toml',
  '.cursor/mcp.json',
  '.envrc',
  '.exrc',
  '.gdbinit',
  '.ghci',
  '.github/workflows',
  '.idea',
  '.irbrc',
  '.lldbinit',
  '.mcp.json',
  '.mise.toml',
  '.npmrc',
  '.nvim.lua',
  '.pnpmfile.cjs',
  '.Rprofile',
  '.vscode/settings.json',
  '.vscode/tasks.json',
  '.yarnrc.yml',
  'mise.toml',
] as const

/** By name; missing ones are left out. */
export type ToolStamps = ReadonlyMap<string, string>

export function stampsOf(folder: OpenFolder): ToolStamps {
  const stamps = new Map<string, string>()
  for (const name of TOOL_FILES) {
    const stat = statOf(folder.at(name))
    if (stat !== undefined) stamps.set(name, `${stat.dev}:${stat.ino}:${stat.ctimeNs}`)
  }
  return stamps
}

/** Those that are new, or not what they were. */
export const changedSince = (before: ToolStamps, now: ToolStamps): readonly string[] =>
  [...now].filter(([name, stamp]) => before.get(name) !== stamp).map(([name]) => name)

function statOf(path: string): { dev: bigint; ino: bigint; ctimeNs: bigint } | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false, bigint: true })
  } catch {
    return undefined // a file is where a folder would be
  }
}
