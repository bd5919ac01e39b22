/** Programs that download an MCP server before they start it. Pure. */
import { basename } from 'node:path'

/** The program's name, or undefined if it downloads nothing. */
export function launcherOf({ command = '' }: { readonly command?: string | undefined }): string | undefined {
  const name = basename(command).replace(/\.cmd$/, '')
  return LAUNCHERS.has(name) ? name : undefined
}

const LAUNCHERS = new Set(['npx', 'npm', 'pnpm', 'pnpx', 'yarn', 'bunx', 'uv', 'uvx', 'pipx', 'docker', 'podman'])
