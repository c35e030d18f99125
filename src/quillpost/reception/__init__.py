"""Before every page: who is reading it, whether they may, and whether a form is really ours."""
