/** The page's entry. The ticket leaves the address before anything else happens. */
import { render } from 'preact'
import { App } from './app.tsx'
import { startTicking } from './clock.ts'
import { openDoor } from './link/connection.ts'
import { takeFromAddress } from './link/token.ts'
import { startRouting } from './route.ts'
import { loadMarkdown } from './text/markdown-view.tsx'

const given = takeFromAddress()
startRouting()
startTicking()
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
void openDoor(given)
requestAnimationFrame(() => loadMarkdown())
