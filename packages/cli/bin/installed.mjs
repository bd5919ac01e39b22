#!/usr/bin/env node
/** `breakfall` as a package installs it. Plain JavaScript, so that an older Node can say what is wrong. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major > 24 || (major === 24 && minor >= 12)) await import('../cli/main.js')
else {
  process.stderr.write(
    `breakfall needs Node 24.12 or newer, and this is Node ${process.versions.node}. Nothing was started. Install a newer Node, or run: npx -p node@24 -p breakfall breakfall\n`,
  )
  process.exitCode = 1
}
