/** Files at the top of a folder that programs of its owner act on by themselves, but that a box may write because agents need to. */
import { lstatSync } from 'node:fs'
import type { OpenFolder } from '../files/walk.ts'

export const TOOL_FILES = [
  '.bazelrc',
  '.cargo/config',
  '.cargo/config.toml',
  '.claude/settings.json',
  '.claude/settings.local.json',
  '.codex/config.toml',
  '.config/mise.toml',
  '.cursor/hooks.json',
  '.cursor/mcp.json',
  '.devcontainer.json',
  '.devcontainer/devcontainer.json',
  '.dir-locals.el',
  '.envrc',
  '.exrc',
  '.gdbinit',
  '.gemini/settings.json',
  '.ghci',
  '.github/workflows',
  '.gitlab-ci.yml',
  '.helix/languages.toml',
  '.hg/hgrc',
  '.idea',
  '.irbrc',
  '.jj/repo/config.toml',
  '.lldbinit',
  '.mcp.json',
  '.mise.local.toml',
  '.mise.toml',
  '.mise/config.toml',
  '.npmrc',
  '.nvim.lua',
  '.nvimrc',
  '.pnpmfile.cjs',
  '.pre-commit-config.yaml',
  '.Rprofile',
  '.tool-versions',
  '.vimrc',
  '.vscode/launch.json',
  '.vscode/mcp.json',
  '.vscode/settings.json',
  '.vscode/tasks.json',
  '.yarnrc',
  '.yarnrc.yml',
  '.zed/settings.json',
  '.zed/tasks.json',
  'lefthook.yml',
  'mise.local.toml',
  'mise.toml',
  'opencode.json',
  'rust-toolchain',
  'rust-toolchain.toml',
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
